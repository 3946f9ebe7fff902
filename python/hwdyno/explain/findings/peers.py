"""How well our figures and a reference tool's agree, by pairs of runs in turn."""

from __future__ import annotations

from collections import defaultdict

from hwdyno.analysis.estimates import geometric_mean, ratio_interval
from hwdyno.explain.findings.applies import Applies, Rule
from hwdyno.explain.findings.rule import Case, Verdict
from hwdyno.model.words import PeerResult, Value

AGREES = 0.03
FAR = 0.10
WIDE = 1.5
"""A ratio whose interval ends differ by more than this factor shows neither agreement nor a difference."""
QUESTION_OF = {("hpcc", "memory"): "stream"}
"""The question that a tool answers about a resource, where it is not the resource's first one."""
# From this size on the pages of a buffer decide the number of segments: queues take 126 to 256 segments per request.
LARGE_BLOCK_BYTES = 512 << 10


def peer_ratio(case: Case) -> list[Verdict]:
    """Ours over theirs, one finding per tool: the geometric mean over the points, and the furthest point."""
    by_tool: dict[str, list[PeerResult]] = defaultdict(list)
    for peer in case.result.peers:
        ratio = peer.ratio
        if ratio is not None and ratio.value > 0 and 0 <= peer.point < len(case.result.points):
            by_tool[peer.full_name].append(peer)
    return [_compare_tool(case, tool, peers) for tool, peers in by_tool.items()]


def _compare_tool(case: Case, tool: str, peers: list[PeerResult]) -> Verdict:
    ratios = [peer.ratio for peer in peers if peer.ratio is not None]
    overall = ratio_interval([ratio.value for ratio in ratios], [1.0] * len(ratios))
    if len(ratios) == 1:
        overall = ratios[0]
    at = max(range(len(ratios)), key=lambda k: _off(ratios[k]))
    worst, where = ratios[at], Case(case.run, case.result, peers[at].point)
    cpu = [peer.cpu_ratio.value for peer in peers if peer.cpu_ratio is not None and peer.cpu_ratio.value > 0]
    costs = f" Our CPU time per operation is {geometric_mean(cpu):.2g} of its." if cpu else ""
    far = [peer.point for peer, ratio in zip(peers, ratios, strict=True) if _differs(ratio)]
    interval = f" ({overall.low:.3g} to {overall.high:.3g})" if overall.low is not None and overall.high else ""
    count = f"over {len(ratios)} points of {case.result.name}" if len(ratios) > 1 else f"here ({where.label})"
    unknown = not far and any(map(_is_wide, (overall, *ratios)))
    outcome = f"Differs from {tool}" if far else f"Agreement with {tool} unproven" if unknown else f"Agrees with {tool}"
    says = f"{outcome}: our result is {overall.value:.3g} times its{interval} {count}."
    if far and len(ratios) > 1:
        says += f" The furthest point has {worst.value:.3g} times ({where.label})."
    if far and tool.startswith("fio") and worst.value > 1 and _paged_apart(where):
        says += (
            " There fio's buffers are in 4 KiB pages, so the device gets each block in up to "
            f"{int((where.number('bs') or 0) // 4096)} segments; ours are in huge pages. "
            "With `--mem small` both do the same."
        )
    if unknown:
        says += " The interval is too wide to tell."
    # Without an interval, a slow moment of one of the two is no evidence of a difference.
    low = [ratio for ratio in ratios if ratio.low is not None and _differs(ratio) and ratio.value < 1 - FAR]
    if all(ratio.low is None for ratio in ratios):
        says += " One pair per point gives no interval."
    return Verdict(
        "warning" if low else "info",
        f"{says}{costs}",
        {
            "tool": tool,
            "ratio": overall.value,
            "low": overall.low,
            "high": overall.high,
            "pairs": sum(peer.pairs for peer in peers),
            "furthest": worst.value,
            "cpu_ratio": geometric_mean(cpu) if cpu else None,
        },
        f"Repeat this point alone with more repeats: {_command_with(where, tool)}"
        if far or unknown
        else "Nothing to do.",
        points=tuple(far) or tuple(peer.point for peer in peers),
    )


def _command_with(case: Case, tool: str) -> str:
    """The command that runs the tool as well; a tool that answers one question only needs its name."""
    question = QUESTION_OF.get((tool.partition(" ")[0], case.result.resource))
    plain = f"hwdyno {case.result.resource} "
    command = case.command_with({"peers": None, "profile": "full"})
    return command.replace(plain, f"{plain}{question} ", 1) if question else command


def _paged_apart(case: Case) -> bool:
    """Whether our large direct blocks are in other pages than fio's."""
    large = (case.number("bs") or 0) >= LARGE_BLOCK_BYTES
    return large and case.parameter("mem", "huge") == "huge" and case.direct


def _off(ratio: Value) -> float:
    return max(ratio.value, 1 / ratio.value)


def _is_wide(ratio: Value) -> bool:
    return bool(ratio.low is not None and ratio.high and ratio.high > WIDE * ratio.low)


def _differs(ratio: Value) -> bool:
    """Whether the interval excludes everything within 3% of 1; without an interval, whether it is 10% off."""
    if ratio.low is None or ratio.high is None:
        return abs(ratio.value - 1) > FAR
    return ratio.high < 1 - AGREES or ratio.low > 1 + AGREES


RULES = (Rule("peer_ratio", "experiment", peer_ratio, Applies(needs=("peers",))),)
