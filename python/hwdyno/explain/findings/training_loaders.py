"""A rule on the engine's loader beside the loaders that training uses: what they would get from this storage."""

from __future__ import annotations

from dataclasses import replace

from hwdyno.explain.findings.applies import Rule
from hwdyno.explain.findings.rule import Case, Verdict, percent, quantity, times
from hwdyno.explain.findings.training import OF_LOADER
from hwdyno.model.units import as_number, plural, positive
from hwdyno.model.words import Measurement, PeerResult

LOADERS = ("numpy", "pytorch")
SAME_AU = 0.02
_PEERS = {"peers": None}


def loaders_compared(case: Case) -> list[Verdict]:
    """Throughput, AU and CPU time per GB, here and by each real loader, at the most accelerators."""
    found = []
    for tool in LOADERS:
        measured = [peer for peer in case.result.peers if peer.tool == tool and peer.ratio is not None]
        if measured:
            found.append(_compare_loader(case, max(measured, key=lambda peer: _accelerators(case, peer))))
    return found


def _accelerators(case: Case, peer: PeerResult) -> float:
    return as_number(case.result.points[peer.point].parameters.get("accelerators")) or 1.0


def _compare_loader(case: Case, peer: PeerResult) -> Verdict:
    point, number = case.result.points[peer.point], _accelerators(case, peer)
    here = Case(case.run, case.result, peer.point)
    ratio = peer.ratio.value if peer.ratio is not None else 1.0
    low, high = (peer.ratio.low, peer.ratio.high) if peer.ratio is not None else (None, None)
    known = f", {low:.3g} to {high:.3g}" if low is not None and high is not None else ""
    says = (
        f"With {plural(number, 'accelerator')}, {peer.full_name}'s loader reads "
        f"{quantity(peer.value.value, peer.value.unit)}. The engine reads "
        f"{quantity(point.throughput.value, point.throughput.unit)} from the same files "
        f"({times(ratio)} times as much{known})."
    )
    evidence: dict[str, float] = {"ratio": ratio}
    ours, theirs = positive(point.details.get("client_cpu_s_per_gb")), positive(peer.details.get("cpu_s_per_gb"))
    if ours and theirs:
        says += f" Each GB costs {theirs:.2f} s of CPU time there and {ours:.2f} s here."
        evidence |= {"cpu_s_per_gb": ours, "their_cpu_s_per_gb": theirs}
    au, their_au = _au(point), positive(peer.details.get("au"))
    if au is None or their_au is None:
        return Verdict("info", says, evidence, f"Compare them again: {here.command_with(_PEERS)}",
                       points=(peer.point,))  # fmt: skip
    evidence |= {"au": au, "their_au": their_au}
    if au - their_au > SAME_AU:
        return Verdict(
            "info",
            f"{says} Its AU is {percent(their_au)} where {percent(au)} is possible: training with it waits for the "
            "loader, not for this storage.",
            evidence,
            f"Give that loader more readers or processors: {here.command_with(_PEERS, read_threads=8)}",
            points=(peer.point,),
        )
    return Verdict(
        "info",
        f"{says} Its AU is {percent(their_au)}, the engine's {percent(au)}.",
        evidence,
        f"Try more: {here.command_with(_PEERS, accelerators=f'{number * 2:.0f},{number * 4:.0f}')}",
        points=(peer.point,),
    )


def _au(point: Measurement) -> float | None:
    return next((found for key in ("au_dlio", "au_rule") if (found := positive(point.details.get(key)))), None)


RULES = (Rule("training_beside_loaders", "experiment", loaders_compared, replace(OF_LOADER, needs=("peers",))),)
