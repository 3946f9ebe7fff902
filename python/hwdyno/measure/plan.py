"""The plan of a run: experiments with their points, their times and repeats, from options or a TOML file."""

from __future__ import annotations

import math
import secrets
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Protocol, TypeVar

from hwdyno.analysis.resources import find
from hwdyno.analysis.resources.quoted import Configuration, distance, fits
from hwdyno.analysis.samples import repeats_that_show
from hwdyno.measure import experiments as catalogue
from hwdyno.measure.experiments import Experiment
from hwdyno.measure.sweep import Sweep, parse_axis, parse_value
from hwdyno.measure.topology import Topology
from hwdyno.model.axes import why_not_here, write_share
from hwdyno.model.units import parse_duration
from hwdyno.model.words import Axis, Declaration, Parameters, Scalar, UserError
from hwdyno.system import foreign
from hwdyno.system.store.former_names import kernel_of_today
from hwdyno.system.suggestions import hint

DeclaredKernels = Mapping[str, Declaration]
Given = Mapping[str, Any]
Made = TypeVar("Made")

BY_PROFILE = ("runtime", "ramp_time", "size")
"""Axes that a profile settles."""
# Overhead of a reading outside its timed region: threads, buffers, opening, and reading the counters.
OVERHEAD_S = 0.06
# Buffers are touched and filled before the timed region, and the last blocks end after it: at 80 MiB a block and
# eight threads that is longer than the region itself.
BUFFER_BYTES_S = 0.5e9
PEER_OVERHEAD_S = 0.5
PEERS_FACTOR = 2.5
"""How much longer a budget is where each reading is paired with a peer's."""
SHORTEST_S = 0.25
WARM_UP_S = 0.3
"""The timed region of a reading before the first that counts."""
# Where a link's speed is unknown, a listing counts writes at this rate, as an upper bound for one NVMe drive of today.
WRITE_BYTES_S = 2e9
LARGEST_FILE = 1 << 20
"""Bytes of a plan file."""
MAX_SEED = 1 << 62
"""Each repeat counts one on from it, and kernels take what 63 bits hold."""
QUOTED_REPEATS, QUOTED_REPEATS_MAX = 7, 15
"""Repeats of a point that a headline quotes, in a run with a budget: at least, and where it stays uncertain at most."""
FEWER_QUOTED = (5, 3, 2)
"""Repeats of such a point where the budget leaves less than two readings to each other point."""


@dataclass(frozen=True)
class Profile:
    """How long and how precisely a run measures."""

    name: str
    runtime_s: float
    """Timed region of one reading."""
    ramp_s: float
    target: float
    """The 95% interval's half width, as a share of the value, at which a point is done."""
    repeats_min: int
    repeats_max: int
    size_bytes: int
    """Size of the data file."""
    budget_s: float | None = None
    """The whole run's time, to which the timed regions are scaled; none for as long as it takes."""


PROFILES = {
    "quick": Profile("quick", 1.0, 0.2, 0.10, 3, 5, 1 << 30, budget_s=150.0),
    "standard": Profile("standard", 5.0, 1.0, 0.05, 3, 10, 4 << 30),
    "full": Profile("full", 30.0, 5.0, 0.02, 5, 20, 16 << 30),
}


def budget_of(profile: str, peers: bool) -> float | None:
    """The time that a profile's whole run may take, s; none for as long as it takes."""
    budget_s = PROFILES[profile].budget_s if profile in PROFILES else None
    return budget_s * PEERS_FACTOR if budget_s and peers else budget_s


@dataclass(frozen=True)
class Planned:
    """One experiment with its points, typed and checked against the kernel's declaration."""

    experiment: Experiment
    points: tuple[Parameters, ...]
    fixed: Parameters
    load: str
    declaration: Declaration = field(default_factory=Declaration)
    """The declaration of its kernel."""
    pairs: float | None = None
    """The average number of its peers' readings per reading, over its points; none where no peer was looked for yet."""
    peer_overhead_s: float = PEER_OVERHEAD_S
    """Time of a peer's reading, beyond what our own takes."""
    excess_s: float = 0.0
    """How much longer than estimated a reading takes beside its timed region, as far as that is known."""
    quoted: tuple[Parameters, ...] = ()
    """Those of its points that headlines quote."""

    def pairs_of(self, plan: Plan) -> float:
        """The number of its peers' readings per reading; one where it has peers and none was looked for yet."""
        if not plan.peers:
            return 0.0
        return float(bool(self.experiment.peers)) if self.pairs is None else self.pairs

    def with_peers_s(self, plan: Plan, once_s: float) -> float:
        """How long a reading of ``once_s`` takes with its peers'."""
        return once_s + self.pairs_of(plan) * (once_s + self.peer_overhead_s)

    @property
    def writes(self) -> bool:
        """Whether any point writes into the data file."""
        return any(self.write_share(point) > 0 for point in self.points)

    def write_share(self, point: Parameters) -> float:
        """The share of a point's operations that write into the data file."""
        if self.declaration.writes not in {"file", "device"}:
            return 0.0
        return write_share(self.declaration.axes, {**self.fixed, **point})


@dataclass(frozen=True)
class Limits:
    """Bounds that the user knows, as typed."""

    ceilings: tuple[str, ...] = ()
    """Such as ``rated read 400 MB/s``."""
    links: tuple[str, ...] = ()
    """Such as ``PCIe 3 x4``."""
    devices: tuple[str, ...] = ()
    """Drives and GPUs of the catalogue."""


NO_LIMITS = Limits()


@dataclass(frozen=True)
class Plan:
    """Everything that a run needs to know before it begins."""

    profile: Profile
    experiments: tuple[Planned, ...]
    path: Path
    peers: bool = False
    seed: int = 1
    limits: Limits = NO_LIMITS
    budget_s: float | None = None
    prepared_s: float = 0.0
    """The part of the budget spent on preparation, and on what comes before it."""
    ending_s: float = 0.0
    """The part of the budget kept for what follows the readings."""
    command: str = "hwdyno"
    study: str = ""
    destroy: str = ""
    """The raw device whose data the user allowed to destroy; empty for none."""
    serial: str = ""
    """Its serial number, as it was typed."""
    given: frozenset[str] = frozenset()
    """Parameters that the user gave: they are never scaled."""

    @property
    def writes(self) -> bool:
        """Whether any point writes storage."""
        return any(one.writes for one in self.experiments)

    @property
    def points(self) -> int:
        """How many points it has."""
        return sum(len(one.points) for one in self.experiments)

    @property
    def needs_data_file(self) -> bool:
        """Whether a data file has to be laid out."""
        return any("data_file" in one.experiment.needs for one in self.experiments)

    @property
    def data_bytes(self) -> int:
        """How long the data file has to be for every point; 0 if none is needed."""
        ends = [
            int(parameters.get("offset") or 0) + int(parameters.get("size") or 0)
            for planned in self.experiments
            if "data_file" in planned.experiment.needs
            for parameters in every(planned)
        ]
        return max(ends, default=0)

    @property
    def least_bytes(self) -> int:
        """The least data file that the points' blocks and jobs fit into."""
        return max((least_region(parameters) for one in self.experiments for parameters in every(one)), default=0)

    def with_size(self, size_bytes: int) -> Plan:
        """This plan on a data file of another size."""
        return replace(
            self,
            experiments=tuple(
                replace(one, fixed={**one.fixed, "size": size_bytes})
                if "data_file" in one.experiment.needs and "size" in one.fixed
                else one
                for one in self.experiments
            ),
        )


def every(planned: Planned) -> list[Parameters]:
    """All parameters of each point."""
    return [{**planned.fixed, **point} for point in planned.points]


def least_region(parameters: Parameters) -> int:
    """Bytes for one block of each job."""
    block, jobs = parameters.get("bs"), parameters.get("numjobs", 1)
    return block * jobs if isinstance(block, int) and isinstance(jobs, int) else 0


@dataclass(frozen=True)
class Timing:
    """How long and how often a point of this run is read."""

    runtime_s: float
    ramp_s: float
    repeats_min: int
    repeats_max: int
    quoted_min: int = 0
    """The least repeats of a point that a headline quotes, where it has more than others."""
    quoted_max: int = 0
    says: str = ""
    """A sentence on how it was shortened to fit the budget."""

    def least(self, quoted: bool) -> int:
        """The least repeats of a point."""
        return max(self.repeats_min, self.quoted_min if quoted else 0)

    def most(self, quoted: bool) -> int:
        """The most repeats of a point."""
        return max(self.repeats_max, self.quoted_max if quoted else 0)


def timing(plan: Plan, left_s: float | None, more: int = 0) -> Timing:
    """The profile's times, scaled so that every point's least repeats, and ``more`` points', fit into ``left_s``."""
    profile = plan.profile
    least, most = profile.repeats_min, profile.repeats_max
    # Pairs with a peer are worth what repeats are: the ratio's interval needs as many.
    whole = Timing(profile.runtime_s, profile.ramp_s, least, most)
    if left_s is None or not plan.points or "runtime" in plan.given:
        return whole
    quoted = max(least, QUOTED_REPEATS) if least > 1 else 1
    tiers = [(repeats, quoted) for repeats in range(least, 1, -1)]
    tiers += [(min(least, 2), fewer) for fewer in FEWER_QUOTED if fewer < quoted]
    tiers += [(1, min(quoted, *FEWER_QUOTED)), (1, 1)]
    for repeats, of_quoted in tiers:
        # The number of readings in units of a whole one, and their overhead.
        shares = float(more * repeats)
        overhead = more * repeats * OVERHEAD_S
        for planned in plan.experiments:
            readings = (len(planned.points) - len(planned.quoted)) * repeats + len(planned.quoted) * of_quoted
            paired = readings * planned.pairs_of(plan)
            count = readings + paired + 1
            shares += count * planned.experiment.runtime_share
            each = sum(overhead_s(planned, point) for point in planned.points)
            overhead += paired * planned.peer_overhead_s + count * each / max(1, len(planned.points))
        share = (left_s - overhead) / shares / (profile.runtime_s + profile.ramp_s)
        runtime, ramp = profile.runtime_s * min(1.0, share), profile.ramp_s * min(1.0, share)
        if runtime >= SHORTEST_S or (repeats, of_quoted) == tiers[-1]:
            runtime = max(SHORTEST_S, runtime)
            cut = _shortened(plan, runtime, repeats, of_quoted) if share < 1 else ""
            beyond = QUOTED_REPEATS_MAX if of_quoted > 1 else 1
            return Timing(runtime, max(0.05, ramp), repeats, max(repeats, most), of_quoted, beyond, cut)
    return whole


def _shortened(plan: Plan, runtime_s: float, repeats: int, quoted: int) -> str:
    """How long readings are in this run, and how many a point has."""
    shares = {one.experiment.runtime_share for one in plan.experiments if one.points}
    times = " to ".join(f"{runtime_s * share:.2g}" for share in sorted({min(shares), max(shares)}))
    each = f"{repeats} of each point"
    if quoted != repeats and any(one.quoted for one in plan.experiments):
        others = any(len(one.quoted) < len(one.points) for one in plan.experiments)
        each = f"{quoted} of each headline figure" + (f", {repeats} of each other point" if others else "")
    return f"Readings are shortened to {times} s, {each}, to end in time"


def setup_s(planned: Planned, point: Parameters) -> float:
    """The overhead of a reading of this point beyond ``OVERHEAD_S``, s."""
    parameters = {**planned.fixed, **point}
    in_flight = [parameters.get(name) or 1 for name in ("bs", "iodepth", "numjobs")]
    known = [one for one in in_flight if isinstance(one, int)]
    if len(known) < len(in_flight):
        return planned.experiment.setup_s
    return planned.experiment.setup_s + math.prod(known) / BUFFER_BYTES_S


def overhead_s(planned: Planned, point: Parameters) -> float:
    """How much longer than its timed region a reading of this point takes, s."""
    return max(0.0, OVERHEAD_S + setup_s(planned, point) + planned.excess_s)


def reading_s(planned: Planned, point: Parameters, chosen: Timing, given: frozenset[str]) -> float:
    """How long one reading of a point takes."""
    parameters = {**planned.fixed, **point}

    def seconds(name: str, default: float) -> float:
        value = parameters.get(name)
        return float(value) if name in given and isinstance(value, int | float) else default

    delay = seconds("startdelay", 0.0)
    if parameters.get("time_based") is False and "runtime" not in given:
        return delay + float(parameters.get("size") or 0) / WRITE_BYTES_S + OVERHEAD_S + max(0.0, planned.excess_s)
    share = planned.experiment.runtime_share
    ramp = seconds("ramp_time", chosen.ramp_s * share) if "ramp_time" in parameters else 0.0
    return delay + ramp + seconds("runtime", chosen.runtime_s * share) + overhead_s(planned, point)


SHOWN_S = 95.0
"""Most that the repeats that show it may take, s, beyond the repeats of the profile."""


def showing(planned: Planned, point: Parameters, chosen: Timing, given: frozenset[str]) -> int:
    """The repeats that show a rare level of a point; 0 where they would take too long."""
    wanted = repeats_that_show(max(1, len(planned.points)))
    takes_s = wanted * reading_s(planned, point, chosen, given)
    return wanted if wanted <= chosen.repeats_max or takes_s <= SHOWN_S else 0


class PlannedSite(Protocol):
    """The site that a plan is made for."""

    def kernels(self) -> DeclaredKernels:
        """Every kernel's declaration by its name."""
        ...

    def topology(self) -> Topology:
        """The processors and NUMA nodes of each host."""
        ...


def build(
    chosen: Sequence[tuple[Experiment, Given]],
    target: PlannedSite,
    *,
    profile: str = "quick",
    path: Path | None = None,
    load: str | None = None,
    peers: bool = False,
    seed: int | None = None,
    budget_s: float | None = None,
    command: str = "hwdyno",
    study: str = "",
    limits: Limits = NO_LIMITS,
) -> Plan:
    """A plan of experiments, each with the axes and parameters that were given; raises ``UserError`` in one line."""
    if seed is not None and not 0 <= seed <= MAX_SEED:
        raise UserError(f"seed {str(seed)[:30]}: use a whole number from 0 to {MAX_SEED}")
    if profile not in PROFILES:
        raise UserError(f"no profile is called '{profile}'; {hint(profile, PROFILES)}")
    if not chosen:
        raise UserError("nothing is selected; name an experiment or a resource")
    how = PROFILES[profile]
    names = [experiment.name for experiment, _ in chosen]
    if len(set(names)) < len(names):
        raise UserError(f"an experiment is named twice: {', '.join(sorted({n for n in names if names.count(n) > 1}))}")
    kernels, topology = target.kernels(), target.topology()
    if topology.clients > 1 and (name := next((one.name for one, _ in chosen if one.kernel not in kernels), "")):
        raise UserError(f"{name} is measured on one host only, and this site has several hosts; start it on one")
    sited = [(_at(experiment, topology), given) for experiment, given in chosen]
    planned = _quoted([_plan_one(experiment, given, kernels, how, load) for experiment, given in sited], topology)
    return Plan(
        profile=how,
        experiments=planned,
        path=(path or Path()).absolute(),
        peers=peers,
        seed=secrets.randbelow(2**31) if seed is None else seed,
        budget_s=budget_s,
        command=command,
        study=study,
        limits=limits,
        given=frozenset(name for _, given in chosen for name in given),
    )


def _at(experiment: Experiment, site: Topology) -> Experiment:
    """The experiment with the sweeps that it has at this site."""
    quick = experiment.quick
    return replace(experiment, sweep=experiment.sweep.at(site), quick=None if quick is None else quick.at(site))


def _plan_one(
    experiment: Experiment, given: Given, kernels: DeclaredKernels, how: Profile, load: str | None
) -> Planned:
    declaration = kernels.get(experiment.kernel)
    if declaration is None:
        raise UserError(
            f"{experiment.name} needs the kernel {experiment.kernel}, which this build lacks; "
            f"{hint(experiment.kernel, kernels)}"
        )
    declared = {axis.name: axis for axis in declaration.axes}
    if any(name in given for name in declaration.consent):
        raise UserError("a raw device can be overwritten from the command line only: --destroy DEVICE --serial TEXT")
    axes = {name: read_axis(value, declared, name, experiment.kernel) for name, value in given.items()}
    # A shortened sweep is for a command that names no axis.
    sweep = experiment.quick if how.name == "quick" and experiment.quick is not None and not axes else experiment.sweep
    swept = {name: values for name, values in axes.items() if len(values) > 1 or name in sweep.axes}
    sweep = _typed(sweep.replace(swept), declared, experiment.kernel)
    of_profile = dict(zip(BY_PROFILE, (how.runtime_s, how.ramp_s, how.size_bytes), strict=True))
    fixed: Parameters = {name: value for name, value in of_profile.items() if name in declared}
    for name, value in {**experiment.settled, **experiment.fixed}.items():
        fixed[name] = parse_value(value, declared.get(name), name)
    fixed |= {name: values[0] for name, values in axes.items() if name not in swept}
    if axes.get("time_based") == (False,):
        # Once through the region, however long it takes, and all of it timed.
        fixed |= {name: 0.0 for name in ("runtime", "ramp_time") if name in declared and name not in axes}
    fixed = {name: value for name, value in fixed.items() if name not in sweep.axes}
    points = sweep.points(declaration.axes)
    # Where it has none of them, the engine says what it has.
    points = [point for point in points if not declaration.lacks({**fixed, **point})] or points
    if "size" in fixed and "size" not in given:
        fixed["size"] = max(int(fixed["size"] or 0), *(least_region({**fixed, **point}) for point in points))
    for point in points:
        wrong = experiment.check(declaration, {**fixed, **point}) if experiment.check else None
        if wrong:
            raise UserError(wrong)
    along = load or (sweep.load_axis(experiment.load) if axes else experiment.load)
    if along not in sweep.axes:
        raise UserError(f"--load {along} is not an axis of this sweep; {hint(along, sweep.axes, 'use one of: ')}")
    return Planned(experiment, tuple(points), fixed, along, declaration)


def _quoted(experiments: Sequence[Planned], site: Topology) -> tuple[Planned, ...]:
    """The experiments, with those of their points that headlines quote."""
    storages: dict[tuple[str, str], list[tuple[int, Parameters, Configuration]]] = {}
    for at, planned in enumerate(experiments):
        name, fixed, axes = planned.experiment.name, planned.fixed, planned.declaration.axes
        for point in planned.points:
            shown = Configuration(name, planned.experiment.kernel, axes, {**fixed, **point})
            storages.setdefault((planned.experiment.resource, name.partition("@")[2]), []).append((at, point, shown))
    chosen: list[list[Parameters]] = [[] for _ in experiments]
    for (resource, _), points in storages.items():
        for figure in find(resource).figures:
            near = [(distance(figure, of, site.processors), at, point) for at, point, of in points if fits(figure, of)]
            closest = min((apart for apart, _, _ in near), default=None)
            for apart, at, point in near:
                if apart == closest and point not in chosen[at]:
                    chosen[at].append(point)
    return tuple(replace(one, quoted=tuple(points)) for one, points in zip(experiments, chosen, strict=True))


def _known(name: str, declared: Mapping[str, Axis], kernel: str) -> Axis:
    if name not in declared:
        raise UserError(why_not_here(name) or f"{kernel} has no parameter '{name}'; {hint(name, declared)}")
    return declared[name]


def read_axis(value: Any, declared: Mapping[str, Axis], name: str, kernel: str = "the kernel") -> tuple[Scalar, ...]:
    """Values of an axis as text (``1..1024``), one value, or a list of either; typed and within bounds."""
    axis = _known(name, declared, kernel)
    values: list[Scalar] = []
    for part in value if isinstance(value, list | tuple) else [value]:
        if isinstance(part, str):
            values += parse_axis(part, axis)
        elif isinstance(part, bool | int | float):
            values.append(parse_value(part, axis))
        else:
            raise UserError(f"{name} = {part!r}: must be a value, or a list of values")
    if not values:
        raise UserError(f"{name}: write at least one value")
    return tuple(dict.fromkeys(values))


def _typed(sweep: Sweep, declared: Mapping[str, Axis], kernel: str) -> Sweep:
    return Sweep.of_blocks(
        tuple(
            {
                name: tuple(parse_value(value, axis) for value in values)
                for name, values in block.items()
                for axis in (_known(name, declared, kernel),)
            }
            for block in sweep.blocks
        )
    )


_TOP = {
    "profile": str,
    "path": str,
    "peers": bool,
    "seed": int,
    "only": list,
    "budget": (str, int, float),
    "ceilings": list,
    "links": list,
    "devices": list,
}
_LISTS_OF_NAMES = {"only", "ceilings", "links", "devices"}
_TOP_TABLES = {"experiment"}
_ENTRY = {"name": str, "axes": dict, "options": dict, "kernel": str, "asks": str, "load": str}


def read_toml(
    path: Path,
    target: PlannedSite,
    make: Callable[..., Made],
    overrides: Given | None = None,
    command: str = "hwdyno run",
) -> Made:
    """The result of ``make``, which has the signature of ``build``, for the experiments in a TOML file."""
    if not path.exists():
        raise UserError(f"plan file {path} does not exist")
    document = foreign.toml_of(foreign.text_of(path, LARGEST_FILE, "a TOML file"), str(path))
    _check_keys(document, _TOP | dict.fromkeys(_TOP_TABLES, list), str(path))
    options = {**document, **{key: value for key, value in (overrides or {}).items() if value is not None}}
    entries = document.get("experiment", [])
    if entries and "only" in document:
        raise UserError(f"{path}: use either 'only' or [[experiment]] entries, not both")
    chosen = (
        [one for entry in entries for one in _entry(entry, path)] if entries else select(options.get("only"), target)
    )
    try:
        return make(
            chosen,
            target,
            profile=options.get("profile", "quick"),
            path=None if options.get("path") is None else Path(options["path"]),
            peers=options.get("peers", False),
            seed=options.get("seed"),
            budget_s=parse_duration(options["budget"]) if "budget" in options else None,
            command=command,
            limits=Limits(*(tuple(options.get(name, ())) for name in ("ceilings", "links", "devices"))),
        )
    except UserError as error:
        raise UserError(f"{path}: {str(error).replace('--', '')}") from None


def _check_keys(table: Any, known: Mapping[str, Any], where: str) -> None:
    if not isinstance(table, dict):
        raise UserError(f"{where}: must be a table")
    for key, value in table.items():
        if key not in known:
            raise UserError(f"{where}: unknown key '{key}'; {hint(key, known)}")
        if not isinstance(value, known[key]) or (known[key] is int and isinstance(value, bool)):
            raise UserError(f"{where}: {key} = {value!r} is of the wrong type")
        if key in _LISTS_OF_NAMES and not all(isinstance(one, str) for one in value):
            raise UserError(f"{where}: {key} = {value!r} must be a list of strings")


def _entry(entry: Any, path: Path) -> list[tuple[Experiment, Given]]:
    where = f"{path}: [[experiment]]"
    _check_keys(entry, _ENTRY, where)
    axes = entry.get("axes", {})
    for name, value in axes.items():
        if not all(isinstance(one, Scalar) for one in (value if isinstance(value, list) else [value])):
            raise UserError(f"{where}: axes.{name} = {value!r}: must be a value, or a list of values")
    if "kernel" not in entry:
        if "name" not in entry:
            raise UserError(f"{where} needs a name, such as storage.iodepth")
        found, options = catalogue.find(entry["name"]), entry.get("options", {})
        return [(replace(one, load=entry.get("load", one.load), options=options), axes) for one in found]
    missing = [key for key in ("name", "load") if key not in entry]
    if missing:
        raise UserError(f"{where} with its own kernel also needs {' and '.join(missing)}")
    kernel = kernel_of_today(entry["kernel"])
    like = next((one for one in catalogue.all() if one.kernel == kernel), None)
    custom = Experiment(
        name=entry["name"],
        asks=entry.get("asks", f"{kernel} by {entry['load']}"),
        kernel=kernel,
        load=entry["load"],
        sweep=Sweep(axes),
        needs=like.needs if like else (),
        check=like.check if like else None,
        ceilings=like.ceilings if like else (),
        peers=like.peers if like else (),
        fixed=like.fixed if like else {},
        writes=like.writes if like else None,
    )
    return [(custom, axes)]


def select(names: Sequence[str] | None, target: PlannedSite) -> list[tuple[Experiment, Given]]:
    """The experiments with the given names or resources; without names, the defaults of ``hwdyno run``."""
    site = target.topology()
    defaults = [one for one in catalogue.all() if one.by_default and one.fits(site)]
    if not names:
        kernels = target.kernels()
        here = [one for one in defaults if one.kernel in kernels]
        has_gpu = any("gpu" in one.needs for one in here) and site.gpus() > 0
        return [(one, {}) for one in here if has_gpu or "gpu" not in one.needs]
    found = dict.fromkeys(one for name in names for one in _by_name(name, defaults))
    return [(one, {}) for one in found]


def _by_name(name: str, defaults: Sequence[Experiment]) -> tuple[Experiment, ...]:
    found = catalogue.find(name)
    # A resource's name means its default experiments; an experiment's name means that experiment.
    return tuple(one for one in found if one in defaults or one.name == name) or found
