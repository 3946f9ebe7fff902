"""A rule on training storage beside DLIO: whether both agree, and if not, which of the two is the limit."""

from __future__ import annotations

from dataclasses import replace

from hwdyno.explain.findings.applies import Rule
from hwdyno.explain.findings.rule import Case, Verdict, percent, times
from hwdyno.explain.findings.training import OF_LOADER, read_feed
from hwdyno.model.units import as_number, positive
from hwdyno.model.words import Measurement, PeerResult

SAME_AU = 0.02
"""Two AUs that differ by at most this are the same."""


def _client_s_per_gb(point: Measurement) -> float | None:
    return positive(point.details.get("client_cpu_s_per_gb"))


def _cost(point: Measurement, peer: PeerResult) -> tuple[str, dict[str, float]]:
    """CPU time per GB here and there, in words and figures."""
    ours, theirs = _client_s_per_gb(point), positive(peer.details.get("cpu_s_per_gb"))
    if ours is None or theirs is None:
        return "", {}
    says = f" Each GB costs {ours:.2f} s of CPU time here and {theirs:.2f} s there."
    return says, {"cpu_s_per_gb": ours, "their_cpu_s_per_gb": theirs, "cpu_ratio": ours / theirs}


def dlio_compared(case: Case) -> Verdict | None:
    """AU here and by DLIO on the same files, with CPU time per GB, at the point where they differ most."""
    found = []
    for peer in case.result.peers:
        fed = read_feed(case.result, case.result.points[peer.point]) if peer.tool == "dlio" else None
        theirs = as_number(peer.details.get("au"))
        if fed is not None and theirs is not None:
            found.append((abs(fed.au - theirs), fed, theirs, peer))
    if not found:
        return None
    apart, fed, theirs, peer = max(found, key=lambda candidate: candidate[0])
    here = Case(case.run, case.result, peer.point)
    cost, evidence = _cost(case.result.points[peer.point], peer)
    evidence = {"au": fed.au, "their_au": theirs, "points_apart": 100 * apart, "compared": len(found), **evidence}
    disturbed = "others_at_work" in case.result.points[peer.point].why
    both = f"AU {percent(fed.au)} here, {percent(theirs)} by {peer.full_name} on the same files ({fed.who})."
    both += " Other processes loaded this machine." if disturbed else ""
    if apart <= SAME_AU:
        return Verdict("info", f"Both agree: {both}{cost}", evidence, "Nothing to do.", points=(peer.point,))
    if theirs < fed.au:
        need = (fed.need_bytes_s * fed.number) / 1e9
        busy = float(evidence.get("their_cpu_s_per_gb", 0.0)) * need
        why = f" At the needed {need:.2f} GB/s, DLIO would use {times(busy)} processors." if busy > 1 else ""
        return Verdict(
            "info",
            f"DLIO reaches {100 * apart:.1f} percentage points less AU by its own work, not the storage's. "
            f"{both}{cost}{why}",
            evidence,
            f"Judge the storage by this loader, or run DLIO on a client with idle processors. Repeat: {here.command()}",
            points=(peer.point,),
        )
    return Verdict(
        "warning",
        f"DLIO reaches {100 * apart:.1f} percentage points more AU, which the same storage cannot explain. "
        f"{both}{cost}",
        evidence,
        "Rule out the page cache, since DLIO ran second: use more samples than fit in memory, or an idle machine and "
        f"one epoch: {here.command_with({'peers': None}, epochs=1)}",
        points=(peer.point,),
    )


RULES = (Rule("training_beside_dlio", "experiment", dlio_compared, replace(OF_LOADER, needs=("peers.dlio",))),)
