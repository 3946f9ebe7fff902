"""How far our figures and a reference tool's agree, from pairs run in turn."""

from __future__ import annotations

from collections import defaultdict

from hwdyno.findings.applies import Applies, Rule
from hwdyno.findings.rule import Case, Verdict
from hwdyno.statistics import geometric_mean, ratio_interval
from hwdyno.words import PeerResult, Value

AGREES = 0.03
FAR = 0.10
WIDE = 1.5
"""An interval of a ratio whose ends are so far apart tells neither that two agree nor that they differ."""
QUESTION_OF = {("hpcc", "memory"): "stream"}
"""By tool and resource: the question that it stands beside, where that is not what the resource asks first."""
# From here on the pages of a buffer decide into how many pieces a block falls: queues take 126 to 256 pieces a request.
LARGE_BLOCK_BYTES = 512 << 10


def peer_ratio(case: Case) -> list[Verdict]:
    """Ours over theirs, one finding a tool: the geometric mean over the points, and the point that is furthest off."""
    by_tool: dict[str, list[PeerResult]] = defaultdict(list)
    for peer in case.result.peers:
        ratio = peer.ratio
        if ratio is not None and ratio.value > 0 and 0 <= peer.point < len(case.result.points):
            by_tool[peer.named].append(peer)
    return [_compared(case, tool, peers) for tool, peers in by_tool.items()]


def _compared(case: Case, tool: str, peers: list[PeerResult]) -> Verdict:
    ratios = [peer.ratio for peer in peers if peer.ratio is not None]
    overall = ratio_interval([ratio.value for ratio in ratios], [1.0] * len(ratios))
    if len(ratios) == 1:
        overall = ratios[0]
    at = max(range(len(ratios)), key=lambda k: _off(ratios[k]))
    worst, where = ratios[at], Case(case.run, case.result, peers[at].point)
    cpu = [peer.cpu_ratio.value for peer in peers if peer.cpu_ratio is not None and peer.cpu_ratio.value > 0]
    costs = f"; an operation costs {geometric_mean(cpu):.2g} of its CPU time" if cpu else ""
    far = [peer.point for peer, ratio in zip(peers, ratios, strict=True) if _differs(ratio)]
    interval = f" ({overall.low:.3g} to {overall.high:.3g})" if overall.low is not None and overall.high else ""
    count = f"over {len(ratios)} points" if len(ratios) > 1 else f"at {where.label}"
    says = f"{case.result.name}: we measure {overall.value:.3g}{interval} of what {tool} does {count}{costs}"
    unknown = not far and any(map(_is_wide, (overall, *ratios)))
    if far:
        says += f"; furthest off is {where.label} at {worst.value:.3g}"
        if tool.startswith("fio") and worst.value > 1 and _paged_apart(where):
            says += (
                ". There its buffers lie in 4 KiB pages, so that the device gets each block in up to "
                f"{int((where.number('bs') or 0) // 4096)} pieces, and ours in huge pages: with `--mem small` both do "
                "alike"
            )
    elif unknown:
        says += ": too wide to tell whether both agree"
    else:
        says += ", so both agree"
    # Without an interval, a slow moment of one of the two would be an accusation.
    low = [ratio for ratio in ratios if ratio.low is not None and _differs(ratio) and ratio.value < 1 - FAR]
    if all(ratio.low is None for ratio in ratios):
        says += "; one pair a point tells no interval"
    return Verdict(
        "warning" if low else "info",
        f"{says}.",
        {
            "tool": tool,
            "ratio": overall.value,
            "low": overall.low,
            "high": overall.high,
            "pairs": sum(peer.pairs for peer in peers),
            "furthest": worst.value,
            "cpu_ratio": geometric_mean(cpu) if cpu else None,
        },
        f"Look at the point alone, with more repeats: {_command_with(where, tool)} --peers --profile full"
        if far or unknown
        else "Nothing to do.",
        points=tuple(far) or tuple(peer.point for peer in peers),
    )


def _command_with(case: Case, tool: str) -> str:
    """The command that runs the tool as well: some stand beside one question alone, which has to be named."""
    question = QUESTION_OF.get((tool.partition(" ")[0], case.result.resource))
    plain = f"hwdyno {case.result.resource} "
    return case.command().replace(plain, f"{plain}{question} ", 1) if question else case.command()


def _paged_apart(case: Case) -> bool:
    """Whether the pages of the buffers tell our large direct blocks from fio's."""
    large = (case.number("bs") or 0) >= LARGE_BLOCK_BYTES
    return large and case.parameter("mem", "huge") == "huge" and case.direct


def _off(ratio: Value) -> float:
    return max(ratio.value, 1 / ratio.value)


def _is_wide(ratio: Value) -> bool:
    return bool(ratio.low is not None and ratio.high and ratio.high > WIDE * ratio.low)


def _differs(ratio: Value) -> bool:
    """Whether the interval leaves out everything within 3% of one; without an interval, 10% off."""
    if ratio.low is None or ratio.high is None:
        return abs(ratio.value - 1) > FAR
    return ratio.high < 1 - AGREES or ratio.low > 1 + AGREES


RULES = (Rule("peer_ratio", "experiment", peer_ratio, Applies(needs=("peers",))),)
