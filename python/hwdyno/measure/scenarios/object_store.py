"""An object store: objects are made below a prefix with the run's mark, measured, and removed."""

from __future__ import annotations

import contextlib
import secrets
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any

from hwdyno.measure.hosts.measured_site import make_site
from hwdyno.measure.scenarios import object_prices
from hwdyno.measure.scenarios.kinds import Kind
from hwdyno.measure.scenarios.object_folder import (
    CA_FILE,
    ENDPOINT,
    by_first_host,
    find_endpoint,
    need_endpoint,
    remove_folder,
    report_left,
)
from hwdyno.measure.scenarios.object_prices import MIN_PART_BYTES
from hwdyno.measure.scenarios.preparation import Preparation, Says, make_error
from hwdyno.measure.scenarios.request import Option, Request
from hwdyno.measure.scenarios.scenario import Scenario
from hwdyno.model.histogram import latency_quantile
from hwdyno.model.kernels import OBJECT_LAYOUT, OBJECT_REQUESTS
from hwdyno.model.units import format_ns, format_size, number_at, plural
from hwdyno.model.words import Measurement, Parameters, Run, UserError

if TYPE_CHECKING:
    from hwdyno.measure.experiments import Experiment
    from hwdyno.measure.hosts import Host
    from hwdyno.measure.plan import Plan

CONNECTION = ("endpoint", "bucket", "prefix", "region", "style", "tls", "ca_file", "timeout", "seed")
"""Parameters by which a kernel reaches the store."""
ROOM_BYTES = 1 << 30
"""Objects of one size take this much room in the store, unless their number is given."""
MIN_OBJECTS, MAX_OBJECTS = 4, 64
MAX_THREADS = 4
"""Threads of the client, unless they are given: each moves several GB/s."""
EXPERIMENTS = ("object.get", "object.put", "object.small", "object.metadata", "object.rate")
READS = ("get", "range", "head", "list", "mixed")
"""Operations on objects that are made before."""


def make(request: Request, host: Host) -> Scenario:
    """Reads and writes of the bucket; raises ``UserError`` without an endpoint or a bucket."""
    options = request.options
    if request.is_brief and not (find_endpoint(options) and options["bucket"]):
        plan = request.plan([(experiment, {}) for experiment in _choose(request)], host)
        return Scenario(plan=plan, preparations=(NoStore(where=request.places[0][1]),))
    endpoint = need_endpoint(options)
    if not options["bucket"]:
        raise UserError("name the bucket: --bucket NAME; --create-bucket makes it")
    prices = object_prices.parse_prices(str(options["price"])) if options["price"] else {}
    if prices and not request.dry_run:
        raise UserError("--price counts what a dry run would cost; add --dry-run")
    if options["mix"]:
        request = replace(request, axes={"operation": "mixed", **request.axes})
    if "rate" in request.axes and "concurrency" not in request.axes:
        request = replace(request, axes={**request.axes, "concurrency": "64"})
    base = str(options["prefix"] or "")
    if base and not base.endswith("/"):
        base += "/"
    prefix = f"{base}hwdyno-{secrets.token_hex(8)}/"
    fixed: Parameters = {"endpoint": endpoint, "bucket": str(options["bucket"])}
    threads = count_client_threads(host)
    settled: Parameters = {"prefix": prefix, "client_threads": threads, "tls": endpoint.startswith("https://")}
    if make_site(host).several:
        settled["client"] = 1
    if options["ca_file"]:
        settled["ca_file"] = str(options["ca_file"])
    if options["mix"]:
        settled["mix"] = str(options["mix"])
    placed = [(_place(experiment, fixed, settled, request), request.axes) for experiment in _choose(request)]
    plan = request.plan(placed, host)
    objects = StoredObjects(
        where=request.places[0][1],
        description=_describe(plan, endpoint, prefix),
        bytes=sum(int(layout["object_size"]) * int(layout["objects"]) for layout in _list_layouts(plan)),
        layouts=_list_layouts(plan),
        creates_bucket=bool(options["create_bucket"]),
    )
    scenario = Scenario(plan=plan, preparations=(objects,), needs=_count_requests(plan), summary=_summarize)
    if not prices:
        return scenario
    clients = host.topology().clients
    link_bytes_s = object_prices.find_link(host.survey(request.places[0][1]))
    costs = partial(object_prices.describe_costs, plan, objects.layouts, prices, link_bytes_s, clients)
    return replace(scenario, costs=costs)


def count_client_threads(host: Host) -> int:
    """Threads that send and receive, unless they are given."""
    return max(1, min(MAX_THREADS, host.topology().processors // 2))


def _choose(request: Request) -> list[Experiment]:
    """The experiments that are wanted by name, the sweep of the given axes, or the default ones."""
    from hwdyno.measure.experiments import object as catalogue

    if (request.axes or request.load) and not request.is_brief:
        base = catalogue.GET
        return [replace(base, name="object.sweep", asks="Custom sweep", sweep=base.single_point, quick=None)]
    known = (catalogue.GET, catalogue.PUT, catalogue.SMALL_GET, catalogue.OTHERS, catalogue.RATE)
    wanted = [experiment for experiment in known if experiment.name in request.only or experiment.default]
    chosen = [experiment for experiment in wanted if request.wants(experiment.name)]
    return [request.as_part(experiment, 1.0, experiment.quick) for experiment in chosen]


def _place(experiment: Experiment, fixed: Parameters, settled: Parameters, request: Request) -> Experiment:
    """The experiment at the store, with as many objects as its largest size leaves room for."""
    from hwdyno.measure.sweep import parse_axis

    given = request.axes.get("object_size")
    sizes = parse_axis(str(given)) if given else experiment.sweep.axes["object_size"]
    largest = max(_parse_bytes(size) for size in sizes)
    count = max(MIN_OBJECTS, min(MAX_OBJECTS, ROOM_BYTES // max(1, largest)))
    return replace(experiment, fixed={**experiment.fixed, **fixed}, settled={**settled, "objects": count})


def _parse_bytes(size: Any) -> int:
    from hwdyno.model.units import parse_size

    return size if isinstance(size, int) else parse_size(str(size))


def _list_layouts(plan: Plan) -> tuple[dict[str, Any], ...]:
    """The parameters of each layout: one for each size of the objects that some point reads.

    Those of clients' own objects come last, because every client needs the mark, which the first layout makes.
    """
    found: dict[tuple[int, bool], dict[str, Any]] = {}
    for planned in plan.experiments:
        for point in planned.points:
            whole = {**planned.fixed, **point}
            size, count = int(number_at(whole, "object_size", 8 << 20)), int(number_at(whole, "objects", MAX_OBJECTS))
            reached = {name: whole[name] for name in CONNECTION if name in whole}
            # A client alone has no number: all objects are its own.
            is_separate = bool(whole.get("separate_objects")) and "client" in whole
            if is_separate:
                reached |= {"client": 1, "separate_objects": True}
            layout = found.setdefault((size, is_separate), {**reached, "object_size": size, "objects": 1})
            if str(whole.get("operation", "get")) in READS and whole.get("visit", "any") == "any":
                layout["objects"] = max(int(layout["objects"]), count)
    layouts = [found[key] for key in sorted(found, key=lambda key: key[1])]
    if layouts[0].get("separate_objects"):
        layouts.insert(0, {**layouts[0], "objects": 1, "client": 0, "separate_objects": False})
    return tuple(layouts)


def _describe(plan: Plan, endpoint: str, prefix: str) -> str:
    parts = [
        f"{plural(int(layout['objects']), 'object')} of {format_size(layout['object_size'])}"
        f"{' for each host' if layout.get('separate_objects') else ''}"
        for layout in _list_layouts(plan)
    ]
    shown = f"{prefix.rpartition('hwdyno-')[0]}hwdyno-…/"
    return f"{', '.join(parts)} below {shown} at {endpoint}, removed afterwards"


def _count_requests(plan: Plan) -> tuple[str, ...]:
    """Lines of a dry run on the requests besides those that are timed, and on those of each multipart object."""
    made = sum(int(layout["objects"]) for layout in _list_layouts(plan))
    lines = [f"{made} PUT and as many DELETE requests besides the timed ones"]
    for size, part in sorted(_list_parts(plan)):
        lines.append(
            f"{-(-size // part)} UploadPart of {format_size(part)}, 1 CreateMultipartUpload and "
            f"1 CompleteMultipartUpload for each object of {format_size(size)}"
        )
    return tuple(lines)


def _list_parts(plan: Plan) -> set[tuple[int, int]]:
    """The sizes of the objects that are written in parts, each with that of a part."""
    whole = [{**planned.fixed, **point} for planned in plan.experiments for point in planned.points]
    uploads = [parameters for parameters in whole if parameters.get("operation") == "multipart"]
    return {
        (max(1, int(number_at(upload, "object_size", 8 << 20))), int(number_at(upload, "part_size", MIN_PART_BYTES)))
        for upload in uploads
    }


@dataclass(frozen=True, kw_only=True, eq=False)
class NoStore(Preparation):
    """No store was named, so that ``hwdyno run`` leaves these experiments out."""

    experiments: frozenset[str] = frozenset(EXPERIMENTS)
    is_of_a_site: bool = True

    @contextlib.contextmanager
    def make_available(self, host: Host, says: Says) -> Iterator[bool]:
        """Nothing; a line says what is missing."""
        says("no object store was named, so none is measured; hwdyno object --endpoint URL --bucket NAME does")
        yield False


@dataclass(frozen=True, kw_only=True, eq=False)
class StoredObjects(Preparation):
    """Objects of a bucket below the prefix of one run."""

    layouts: tuple[dict[str, Any], ...] = field(default=())
    creates_bucket: bool = False
    is_of_a_site: bool = True

    @contextlib.contextmanager
    def make_available(self, host: Host, says: Says) -> Iterator[bool]:
        """The objects, which are removed after; what killed runs left below the same prefix goes first."""
        first = self.layouts[0]
        reached = {name: first[name] for name in CONNECTION if name in first}
        marked, refused = False, ""
        try:
            for layout in self.layouts:
                says(f"writing {plural(int(layout['objects']), 'object')} of {format_size(layout['object_size'])}")
                try:
                    made = self._lay_out(host, layout, marked=marked)
                except (OSError, ValueError) as error:
                    refused = "" if marked else str(error)
                    raise
                marked = True
                report_left(made, says)
            yield True
        finally:
            remove_folder(host, reached, says, refused)

    def _lay_out(self, host: Host, layout: dict[str, Any], *, marked: bool) -> dict[str, Any]:
        parameters = {**layout, "marked": marked, "create_bucket": self.creates_bucket and not marked}
        if not (marked and layout.get("separate_objects")):
            parameters |= by_first_host(host)
        try:
            reading = host.run(OBJECT_LAYOUT, parameters)
        except OSError as error:
            raise make_error(error) from None
        for part in reading.get("hosts", ()):
            if part["failure"]:
                raise UserError(f"{part['host']}: {part['failure']}")
        details: dict[str, Any] = reading["details"]
        return details


def _summarize(run: Run) -> Iterator[str]:
    """Each point's times to the first and to the last byte."""
    for result in run.experiments:
        if result.kernel != OBJECT_REQUESTS:
            continue
        for point in result.points:
            shown = {**result.fixed, **point.parameters}
            name = f"{result.name} {shown.get('operation')} {result.load} {shown.get(result.load)}"
            if times := _times(point):
                yield f"{name}: {times}"


def _times(point: Measurement) -> str:
    timed = [stream for stream in point.streams if "first_byte" in stream.latency_ns]
    words = []
    for stream in timed:
        of_one = f"{stream.name} " if len(timed) > 1 else ""
        for kind, name in (("first_byte", "TTFB"), ("total", "TTLB")):
            found = stream.latency_ns.get(kind)
            if found is not None and found.count:
                p50, p99 = ((latency_quantile(found, share) or 0.0) for share in (0.5, 0.99))
                words.append(f"{of_one}{name} p50 {format_ns(p50)} p99 {format_ns(p99)}")
    failed = sum(fault.count for fault in point.faults)
    return ", ".join([*words, *([f"{failed} failed"] if failed else [])])


KIND = Kind(
    name="object",
    command="object",
    make=make,
    title="object store",
    options=(
        ENDPOINT,
        Option("--bucket", "the bucket; only keys below hwdyno-… in it are written and removed", "NAME"),
        Option("--prefix", "the folder in the bucket that hwdyno-… is made in", "PREFIX"),
        Option("--price", "with --dry-run: prices of 1,000 requests and a GB out (put=0.005,get=0.0004,out=0.09)", "P"),
        CA_FILE,
        Option("--mix", "shares of operations: get=45,head=30,put=15,delete=10 (as warp mixed)", "SHARES"),
        Option("--create-bucket", "make the bucket where there is none", kind=bool, default=False),
    ),
    kernel=OBJECT_REQUESTS,
    hidden={"endpoint", "bucket", "prefix", "tls", "ca_file", "mix", "seed", "client", "existing"},
    experiments=EXPERIMENTS,
)
