"""How far more clients go: their throughput together, how equally it is shared, and what limits it by name."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass

from hwdyno.analysis.curves import curve_value
from hwdyno.analysis.estimates import jain
from hwdyno.explain.findings.applies import Applies, Rule
from hwdyno.explain.findings.bottleneck import LimitKind, find_limit
from hwdyno.explain.findings.laws import against_ceilings
from hwdyno.explain.findings.point_labels import load_words
from hwdyno.explain.findings.rule import Case, Verdict, apart, as_number, at_place, contrast, percent, times
from hwdyno.model.axes import CLIENTS
from hwdyno.model.machine import node_name
from hwdyno.model.units import format_load, plural
from hwdyno.model.words import Curve, ExperimentResult, HostShare, Latency, Measurement, Run, Validity, Value

FAIR = 0.9
"""Index below which clients are not served alike: one of ten gets nothing, or half of them get half of the others'."""
NOT_KNOWN = "not identified"


@dataclass(frozen=True, slots=True)
class ScalingStep:
    """One load of a curve over clients: what they reach together, and each of them."""

    at: int
    """The point's place in its experiment."""
    clients: float
    nodes: int
    throughput: Value
    share_of_linear: float
    """Throughput as a share of that many times the throughput of a client at the least load."""
    fairness: float | None
    """Jain's index of the clients' throughputs; none for one client, or where their parts are not known."""
    latency_ns: Latency | None
    """Latency of all clients' operations together."""
    slowest_p99_ns: float | None
    """The p99 of the client with the longest one."""
    slowest: str
    """The client with the least throughput; empty where it is not known."""
    limit: str
    """What limits it by name, such as ``client CPU``; ``not identified`` where nothing measured tells."""
    says: str
    """The limit in a sentence or two."""
    validity: Validity


def list_steps(run: Run, result: ExperimentResult, curve: Curve) -> tuple[ScalingStep, ...]:
    """The loads of a curve over clients, the least first."""
    points = sorted(curve.points, key=lambda at: _clients(result.points[at]))
    first = result.points[points[0]]
    per_client = curve_value(first, result).value / max(1.0, _clients(first))
    return tuple(_step(Case(run, result, at), per_client) for at in points)


def _clients(point: Measurement) -> float:
    return as_number(point.parameters.get(CLIENTS.name)) or 0.0


def _step(case: Case, per_client: float) -> ScalingStep:
    point, value, clients = case.point, curve_value(case.point, case.result), _clients(case.point)
    shares = _there(point)
    tails = [
        share.latency_ns.p99 for share in shares if share.latency_ns is not None and share.latency_ns.p99 is not None
    ]
    limit = find_limit(case)
    return ScalingStep(
        at=case.at,
        clients=clients,
        nodes=len({node_name(share.host) for share in point.hosts}) or 1,
        throughput=value,
        share_of_linear=value.value / (per_client * clients) if per_client and clients else 0.0,
        fairness=measure_fairness(point),
        latency_ns=point.latency_ns,
        slowest_p99_ns=max(tails, default=None),
        slowest=min(shares, key=lambda share: share.throughput.value).host if len(shares) > 1 else "",
        limit=_name_limit(limit.kind, case),
        says=limit.says,
        validity=point.validity,
    )


def _there(point: Measurement) -> list[HostShare]:
    return [share for share in point.hosts if share.repeats]


def measure_fairness(point: Measurement) -> float | None:
    """Jain's index of the hosts' throughputs; none for fewer than two."""
    shares = [share.throughput.value for share in _there(point)]
    return jain(shares) if len(shares) > 1 else None


_NAMES: dict[LimitKind, str] = {
    "memory stall": "client memory",
    "client CPU busy": "client CPU",
    "waiting for wake-ups": "client CPU (wake-ups)",
    "processors busy elsewhere": "client CPU (other threads)",
    "paced by a limit": "too little in flight, or a rate",
    "not identified": NOT_KNOWN,
}


def _name_limit(kind: LimitKind, case: Case) -> str:
    if kind == "device queue full":
        return case.resource.title.lower()
    if kind != "ceiling reached":
        return _NAMES[kind]
    fullest = max(against_ceilings(case, "physical"), key=lambda utilization: utilization.share)
    return fullest.bound.ceiling.label or "link"


def scaling(case: Case) -> Verdict | None:
    """What more clients bring, where their knee is, and what limits them."""
    curve, result = case.curve, case.result
    if curve is None:
        return None
    steps = list_steps(case.run, result, curve)
    most = max(steps, key=lambda step: step.throughput.value)
    best = _best(steps, curve)
    verdict, to = _in_words(case, curve, steps)
    fairness = min((step.fairness for step in steps if step.fairness is not None), default=None)
    fair = "" if fairness is None else f" Fairness (Jain): {fairness:.2f} or more."
    limit = f" Limit: {most.limit}." if most.limit != NOT_KNOWN else " Limit not identified."
    return Verdict(
        "info",
        f"{verdict}{limit}{fair}",
        {
            "state": curve.state,
            "best_clients": best.clients,
            "knee_clients": curve.knee.load if curve.knee else None,
            "limit": most.limit,
            "limit_says": most.says,
            "unit": curve.unit,
            "steps": [plain_step(step) for step in steps],
        },
        to,
    )


def _best(steps: Sequence[ScalingStep], curve: Curve) -> ScalingStep:
    """The load that the curve calls best, or else the last one."""
    wanted = curve.best.load if curve.best else steps[-1].clients
    return min(steps, key=lambda step: abs(step.clients - wanted))


def _in_words(case: Case, curve: Curve, steps: Sequence[ScalingStep]) -> tuple[str, str]:
    """What the curve says in a sentence or two, and what to do about it."""
    first, last, axis = steps[0], steps[-1], case.result.load_axis
    gain = times(last.throughput.value / first.throughput.value) if first.throughput.value else "?"
    many = load_words(axis, last.clients)
    reached = case.quantity(last.throughput.value, last.throughput.unit)
    if curve.state in {"knee", "saturated at the first point"} and curve.best is not None:
        best, verb = load_words(axis, curve.best.load), "Scales to" if curve.state == "knee" else "Saturated at"
        return (
            f"{verb} {best} ({case.label}): {at_place(case, curve.best, curve.unit)}. "
            f"{many} reach {reached}, {gain} times {load_words(axis, first.clients)}.",
            f"Stay at {best}, or project further: hwdyno scaling --load 100,1000",
        )
    if curve.state == "flat":
        return (
            f"More clients bring nothing ({case.label}): "
            f"{contrast(case.quantity(first.throughput.value, first.throughput.unit), reached)} "
            f"from {format_load(first.clients)} to {many}.",
            f"Use {load_words(axis, first.clients)}: {case.command(**{CLIENTS.name: format_load(first.clients)})}",
        )
    further = f"1..{format_load(8 * last.clients)}"
    return (
        f"{many} reach {reached} ({case.label}), {gain} times {load_words(axis, first.clients)} "
        f"({percent(last.share_of_linear)} of linear); no knee yet.",
        f"Start more clients: {case.command(**{CLIENTS.name: further})}",
    )


def plain_step(step: ScalingStep) -> dict[str, object]:
    """A load as plain JSON values, times in ns."""
    plain = asdict(step)
    latency = step.latency_ns
    del plain["latency_ns"], plain["says"], plain["at"]
    plain["throughput"] = {name: plain["throughput"][name] for name in ("value", "low", "high")}
    return plain | {
        "latency_mean_ns": latency and latency.mean,
        "latency_p99_ns": latency and latency.p99,
    }


def unfair(case: Case) -> Verdict | None:
    """Clients of one load get unequal shares, beyond the scatter of their repeats."""
    index, shares = measure_fairness(case.point), _there(case.point)
    if index is None or index >= FAIR:
        return None
    least, most = (choose(shares, key=lambda share: share.throughput.value) for choose in (min, max))
    if not apart(least.throughput, most.throughput):
        return None
    unit = most.throughput.unit
    return Verdict(
        "warning",
        f"Unequal shares ({case.label}): Jain's index is {index:.2f} of 1 over {plural(len(shares), 'client')}. "
        f"Client {least.host} got "
        f"{contrast(case.quantity(least.throughput.value, unit), case.quantity(most.throughput.value, unit), 'vs')} "
        f"of {most.host}.",
        {
            "fairness": index,
            "unit": unit,
            "clients": {share.host: share.throughput.value for share in shares},
        },
        f"Measure again with fewer clients: {case.command(**{CLIENTS.name: max(1, len(shares) // 2)})}",
        weight=1 - index,
    )


RULES = (
    Rule(
        "scaling", "curve", scaling, Applies(loads=(CLIENTS.name,)),
        instead_of=("knee", "still_rising", "saturated", "load_without_effect"),
    ),
    Rule("unfair", "point", unfair, Applies(needs=("hosts",))),
)  # fmt: skip
"""The rules on clients: of the curve along their number, and of each point."""
