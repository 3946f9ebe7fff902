"""Rules on the answers of a served language model: cut short, from a cache, in chunks, miscounted, kept back."""

from __future__ import annotations

from dataclasses import replace

from hwdyno.explain.findings.applies import Rule
from hwdyno.explain.findings.rule import Case, Verdict, percent
from hwdyno.explain.findings.serving import CACHED_SHARE, SERVING, find_latency, read_detail
from hwdyno.model.units import format_count, format_ns

SHORT_SHARE = 0.05
SEVERAL = 1.2
"""Tokens a chunk from which on gaps between chunks are no inter-token latency."""


def serving_short(case: Case) -> Verdict | None:
    """Answers shorter than requested: the server ended them, so tokens/s of equal lengths are compared with less."""
    share = read_detail(case.point, "short_share")
    if share <= SHORT_SHARE:
        return None
    mean = read_detail(case.point, "output_tokens_mean")
    return Verdict(
        "warning",
        f"Answers ended early ({case.label}): {percent(share)} have fewer tokens than requested, {format_count(mean)} "
        "on average. Their lengths are the model's choice.",
        {"short_share": share, "output_tokens_mean": mean},
        f"Let the server go on past an end token, if it can: {case.command(ignore_eos=True)}",
        weight=share,
    )


def serving_cached(case: Case) -> Verdict | None:
    """Prompts that the server took from its prefix cache: their TTFT is no time of a prompt."""
    share = read_detail(case.point, "cached_share")
    if share <= CACHED_SHARE or case.parameter("reuse_prompts"):
        return None
    return Verdict(
        "warning",
        f"Prompts came from the server's prefix cache ({case.label}): {percent(share)} of their tokens were not "
        "computed again, so TTFT is too short.",
        {"cached_share": share},
        "Turn the server's prefix cache off. Where the cache is what you measure, say so: "
        + case.command(reuse_prompts=True),
        weight=share,
    )


def serving_chunks(case: Case) -> Verdict | None:
    """Several tokens a chunk: gaps between chunks are longer than those between tokens."""
    per_chunk = read_detail(case.point, "tokens_a_chunk")
    gap, token = find_latency(case.point, "chunk_gap"), find_latency(case.point, "per_token")
    if per_chunk < SEVERAL or gap is None or token is None:
        return None
    return Verdict(
        "info",
        f"A chunk has {per_chunk:.2g} tokens ({case.label}): the gap between chunks is {format_ns(gap.mean)}, "
        f"a token takes {format_ns(token.mean)}. Tools that call the gap inter-token latency show the first.",
        {"tokens_a_chunk": per_chunk, "chunk_gap_ns": gap.mean, "per_token_ns": token.mean},
        "Compare TPOT, which has the server's count of tokens.",
        weight=per_chunk,
    )


def serving_miscounted(case: Case) -> Verdict | None:
    """Counts of tokens that cannot be: rates of tokens that follow from them are wrong."""
    share, most = read_detail(case.point, "miscounted_share"), read_detail(case.point, "miscounted_tokens")
    counts = f"up to {format_count(most)}, more than was requested or than was sent" if most else "0, beside their text"
    return Verdict(
        "warning",
        f"The server's token counts are impossible in {percent(share)} of the answers ({case.label}): {counts}. "
        "They are not used, so tokens/s are unknown.",
        {"miscounted_share": share, "miscounted_tokens": most},
        "Compare usage.completion_tokens of one answer with its text, and report it to the server's makers.",
        weight=share,
    )


def serving_one_piece(case: Case) -> Verdict | None:
    """Answers that were kept back until they were whole: their tokens have no times."""
    share = read_detail(case.point, "one_piece_share")
    return Verdict(
        "warning",
        f"Answers came in one piece ({case.label}): {percent(share)} of them. The server or a proxy before it keeps "
        "their tokens back, so these have no TTFT and no TPOT.",
        {"one_piece_share": share},
        "Turn the proxy's buffering off (nginx: proxy_buffering off), or measure beside the server: " + case.command(),
        weight=share,
    )


RULES = (
    Rule("serving_short", "point", serving_short, replace(SERVING, needs=("details.short_share",)), degrades=True),
    Rule("serving_cached", "point", serving_cached, replace(SERVING, needs=("details.cached_share",)), degrades=True),
    Rule("serving_chunks", "point", serving_chunks, replace(SERVING, needs=("details.tokens_a_chunk",))),
    Rule(
        "serving_miscounted", "point", serving_miscounted, replace(SERVING, needs=("details.miscounted_share",)),
        degrades=True,
    ),
    Rule(
        "serving_one_piece", "point", serving_one_piece, replace(SERVING, needs=("details.one_piece_share",)),
        degrades=True,
    ),
)  # fmt: skip
