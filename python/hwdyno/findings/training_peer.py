"""A rule on training storage beside DLIO: do both say the same of it, and if not, which of the two is the limit?"""

from __future__ import annotations

from dataclasses import replace

from hwdyno.findings.applies import Rule
from hwdyno.findings.rule import Case, Verdict, percent, times
from hwdyno.findings.training import OF_LOADER, again, fed
from hwdyno.units import as_number, positive
from hwdyno.words import Measurement, PeerResult

SAME_AU = 0.02
"""Two AUs within so much of each other are called the same."""


def _client_s_per_gb(point: Measurement) -> float | None:
    return positive(point.details.get("client_cpu_s_per_gb"))


def _cost(point: Measurement, peer: PeerResult) -> tuple[str, dict[str, float]]:
    """What a GB costs in CPU time here and there, in words and figures."""
    ours, theirs = _client_s_per_gb(point), positive(peer.details.get("cpu_s_per_gb"))
    if ours is None or theirs is None:
        return "", {}
    says = f"; a GB costs {ours:.2f} s of CPU time here and {theirs:.2f} s there"
    return says, {"cpu_s_per_gb": ours, "their_cpu_s_per_gb": theirs, "cpu_ratio": ours / theirs}


def dlio_compared(case: Case) -> Verdict | None:
    """AU here and by DLIO on the same files, with what each spends on a GB; the furthest point speaks for all."""
    found = []
    for peer in case.result.peers:
        what = fed(case.result, case.result.points[peer.point]) if peer.tool == "dlio" else None
        theirs = as_number(peer.details.get("au"))
        if what is not None and theirs is not None:
            found.append((abs(what.au - theirs), what, theirs, peer))
    if not found:
        return None
    apart, what, theirs, peer = max(found, key=lambda one: one[0])
    cost, evidence = _cost(case.result.points[peer.point], peer)
    evidence = {"au": what.au, "their_au": theirs, "points_apart": 100 * apart, "compared": len(found), **evidence}
    disturbed = "others_at_work" in case.result.points[peer.point].why
    both = f"{what.who}: AU {percent(what.au)} here and {percent(theirs)} by {peer.named} on the same files"
    both += ", with others at work on this machine" if disturbed else ""
    if apart <= SAME_AU:
        return Verdict("info", f"{both}, so both agree{cost}.", evidence, "Nothing to do.", points=(peer.point,))
    if theirs < what.au:
        need = (what.need_bytes_s * what.number) / 1e9
        busy = float(evidence.get("their_cpu_s_per_gb", 0.0)) * need
        why = f": at this need of {need:.2f} GB/s it would want {times(busy)} processors to itself" if busy > 1 else ""
        return Verdict(
            "info",
            f"{both}{cost}: the {100 * apart:.1f} points between them are DLIO's own work and not the storage's{why}.",
            evidence,
            f"Judge the storage by this loader, and DLIO's verdict on a client with processors to spare: {again(case)}",
            points=(peer.point,),
        )
    return Verdict(
        "warning",
        f"{both}{cost}: it is {100 * apart:.1f} points ahead, which the same storage cannot explain.",
        evidence,
        "See whether the page cache held more of the files when DLIO came second: give more --samples than memory "
        "holds, or --epochs 1 on an idle machine.",
        points=(peer.point,),
    )


RULES = (Rule("training_beside_dlio", "experiment", dlio_compared, replace(OF_LOADER, needs=("peers.dlio",))),)
