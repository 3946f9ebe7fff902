"""A server of a language model that runs already, and is driven by users or by a rate."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from hwdyno.analysis.estimates import early_stopping_count
from hwdyno.measure.scenarios.kinds import Kind
from hwdyno.measure.scenarios.preparation import Preparation, Says
from hwdyno.measure.scenarios.request import Option, Request
from hwdyno.measure.scenarios.scenario import Scenario
from hwdyno.measure.serving import lengths, request_figures
from hwdyno.measure.serving.server_address import KEY, resolve_server
from hwdyno.model.histogram import latency_quantile
from hwdyno.model.units import format_count, format_ns
from hwdyno.model.words import Latency, Measurement, Run, UserError

if TYPE_CHECKING:
    from hwdyno.measure.experiments import Experiment
    from hwdyno.measure.hosts import Host

KERNEL = "inference_serving"
KERNELS = (KERNEL, "inference_in_process")
"""What measures requests and the times of their tokens."""
RUNTIME_S = {"quick": 4.0, "standard": 30.0, "full": 120.0}
"""A reading needs many whole answers, of some seconds each."""
SHOWN = (("p50", 0.5), ("p90", 0.9), ("p99", 0.99), ("p99.9", 0.999))
NOWHERE = "http://127.0.0.1:9"
"""Address of experiments that are left out."""
EXPERIMENTS = ("inference.serving", "inference.serving_rate", "inference.serving_trace")
NAMES = {
    "total": "E2E",
    "first_token": "TTFT",
    "first_token_sent": "TTFT from the sent time",
    "per_token": "TPOT",
    "token_gap": "ITL",
    "chunk_gap": "ICL",
    "send_lag": "send lag",
}


def make(request: Request, host: Host) -> Scenario:
    """The experiment against a server that runs already."""
    if not request.options["server"]:
        return replace(of_url(request, host, NOWHERE), preparations=(NoServer(where=request.places[0][1]),))
    url = str(request.options["server"])
    allow_remote = str(request.axes.get("allow_remote", "")).lower() in {"1", "true", "yes", "on"}
    resolve_server(url, allow_remote=allow_remote)
    return of_url(request, host, url)


def of_url(request: Request, host: Host, url: str) -> Scenario:
    """The closed loop against a server, or the open one where a rate or a trace is given."""
    from hwdyno.measure.experiments.inference_serving import SERVING, SERVING_RATE, SERVING_TRACE

    (experiment,) = kind_of_load(replace(request, only=frozenset()), (SERVING, SERVING_RATE, SERVING_TRACE))
    served = replace(experiment, fixed={**experiment.fixed, "server": url})
    plan = request.plan([(served, request.axes)], host)
    plan = replace(plan, profile=replace(plan.profile, runtime_s=RUNTIME_S[request.profile], ramp_s=0.0))
    return Scenario(plan=plan, summary=summary)


def kind_of_load(request: Request, kinds: Sequence[Experiment]) -> list[Experiment]:
    """The kinds of load (closed loop, open loop, trace) that are wanted by name, or else the one that the axes say.

    Raises ``UserError`` for axes of both and for lengths that are no distribution.
    """
    if "rate" in request.axes and "concurrency" in request.axes:
        raise UserError("--rate is an open loop and --concurrency a closed one; name one of them")
    for name in ("input_tokens", "output_tokens"):
        for text in str(request.axes.get(name, "1")).split(","):
            lengths.parse(text, name.replace("_", "-"))
    closed, rate, trace = kinds
    if named := [kind for kind in kinds if kind.name in request.only]:
        return named
    return [trace if "trace" in request.axes else rate if "rate" in request.axes else closed]


@dataclass(frozen=True, kw_only=True, eq=False)
class NoServer(Preparation):
    """No server was named, so that ``hwdyno run`` leaves these experiments out."""

    experiments: frozenset[str] = frozenset(EXPERIMENTS)

    @contextlib.contextmanager
    def make_available(self, host: Host, says: Says) -> Iterator[bool]:
        """Nothing; a line says what is missing."""
        says("no server was named, so none is driven; hwdyno inference --server URL does")
        yield False


# --- the figures beneath the report


def summary(run: Run) -> Iterator[str]:
    """Every kind of time with its percentiles, a line each, and the formulas once."""
    names = {}
    for result in run.experiments:
        if result.kernel not in KERNELS:
            continue
        for point in result.points:
            load = point.parameters.get(result.load)
            targets = {**result.fixed, **point.parameters}
            has_target = bool(targets.get("ttft_target") or targets.get("tpot_target"))
            yield f"{result.name} {result.load} {load}: {_rates(point, has_target=has_target)}"
            for kind, name in NAMES.items():
                found = next((stream.latency_ns[kind] for stream in point.streams if kind in stream.latency_ns), None)
                if found is not None:
                    names[kind] = name
                    yield f"  {name} {_percentiles(found)}"
    if names:
        yield "due: when the request was to be sent; n: the answer's tokens by the server's usage"
        yield from (request_figures.FORMULAS[kind] for kind in names)


def _rates(point: Measurement, *, has_target: bool) -> str:
    words = [f"{format_count(point.throughput.value)} requests/s"]
    for name, noun in (("output_tokens_s", "tokens/s"), ("prompt_tokens_s", "prompt tokens/s")):
        if isinstance(value := point.details.get(name), float):
            words.append(f"{format_count(value)} {noun}")
    good = point.details.get("goodput_requests_s")
    if has_target and isinstance(good, float):
        words.append(f"goodput {format_count(good)} requests/s")
    failed = point.details.get("failed_share") or 0.0
    return ", ".join([*words, *([f"{failed:.1%} failed"] if failed else [])])


def _percentiles(found: Latency) -> str:
    """The percentiles for which there are enough values by MLPerf's rule of early stopping, and what is missing."""
    enough = [(name, share) for name, share in SHOWN if found.count >= early_stopping_count(share)]
    words = [f"{name} {format_ns(latency_quantile(found, share) or 0.0)}" for name, share in enough]
    if len(enough) < len(SHOWN):
        name, share = SHOWN[len(enough)]
        words.append(f"too few for {name} ({found.count} of {early_stopping_count(share)})")
    return ", ".join(words)


KIND = Kind(
    name="server",
    command="inference",
    make=make,
    title="serving",
    options=(Option("--server", f"drive this OpenAI-compatible server; {KEY} has its key", "URL"),),
    chosen_by="server",
    kernel=KERNEL,
    hidden={"server"},
    experiments=EXPERIMENTS,
)
