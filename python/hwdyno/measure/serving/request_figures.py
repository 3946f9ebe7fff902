"""The figures of served requests, each by its formula; the docs list what other tools call by the same names.

With n the answer's tokens by the server's ``usage``, ``due`` the moment at which a request was to be sent, ``sent``
when the client began to, and ``first`` and ``last`` its first and last chunk with content.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise

from hwdyno.analysis import estimates
from hwdyno.measure.serving.answers import Answer
from hwdyno.measure.serving.client_result import Sent
from hwdyno.model.histogram import Histogram

FORMULAS = {
    "total": "E2E = last - due",
    "first_token": "TTFT = first - due",
    "first_token_sent": "TTFT from the sent time = first - sent",
    "per_token": "TPOT = (last - first) / (n - 1), a request; none for n < 2",
    "token_gap": "ITL = gap before a chunk / its tokens, a token; none where the server counts no tokens a chunk",
    "chunk_gap": "ICL = gap before a chunk",
    "send_lag": "send lag = sent - due",
}
"""The field's name and the formula of each kind of time."""
FASTEST_TOKEN_S = 10e-6
"""Mean time a token below which an answer came in one piece: the fastest services give one user some 3,000 tokens/s."""
FAST_TOKEN_S, SHORT_SPAN = 100e-6, 0.01
"""An answer came in one piece, too, whose tokens took less than this each and this share of its time: written one by
one, but when it was whole."""
KEPT_BACK = 0.5
"""Share of the answers in one piece from which on something keeps them back; of fewer the client was late."""


@dataclass(frozen=True, slots=True)
class AnsweredRequest:
    """One whole answer in seconds of the reading."""

    due_s: float
    sent_s: float
    first_s: float
    last_s: float
    gaps_s: tuple[float, ...]
    """Gaps between chunks."""
    tokens_by_gap: tuple[int, ...]
    """Tokens that came after each gap; empty where they are not known."""
    wanted_tokens: int
    output_tokens: int | None
    """Tokens by the server's ``usage``; none where it gives none, or one that cannot be."""
    miscounted: int | None = None
    """The server's count where it cannot be: above the tokens requested, or above what its events can carry."""
    prompt_tokens: int | None = None
    cached_tokens: int | None = None
    in_flight: int = 1
    server_prompt_s: float | None = None
    server_token_s: float | None = None

    @property
    def per_token_s(self) -> float | None:
        """TPOT."""
        n = self.output_tokens
        return (self.last_s - self.first_s) / (n - 1) if n is not None and n > 1 and not self.in_one_piece else None

    @property
    def in_one_piece(self) -> bool:
        """Whether something kept the answer's tokens back until it was whole: when each was made is not known."""
        n, span_s = self.output_tokens or len(self.gaps_s) + 1, self.last_s - self.first_s
        is_short = span_s < SHORT_SPAN * (self.last_s - self.sent_s)
        return n > 1 and span_s < (FAST_TOKEN_S if is_short else FASTEST_TOKEN_S) * (n - 1)

    def is_good(self, first_token_s: float, per_token_s: float) -> bool:
        """Whether it is within both limits, of which 0 is none; an answer of one token has no time a token.

        Of an answer in one piece the longest times are taken that it allows.
        """
        is_soon = not first_token_s or self.first_s - self.due_s <= first_token_s
        per_token = self.per_token_s or 0.0
        if self.in_one_piece:
            per_token = (self.last_s - self.sent_s) / max(1, (self.output_tokens or 2) - 1)
        return is_soon and (not per_token_s or per_token <= per_token_s)


def convert_request(sent: Sent, answer: Answer, started_ns: int) -> AnsweredRequest:
    """An answered request in seconds of the reading."""

    def seconds(moment: int) -> float:
        return (moment - started_ns) / 1e9

    chunks, counted = answer.chunks_ns, answer.output_tokens
    cannot_be = counted is not None and not 1 <= counted <= min(sent.prompt.output_tokens, answer.max_tokens)
    cached, prompt = answer.cached_tokens, answer.prompt_tokens
    return AnsweredRequest(
        due_s=seconds(sent.due_ns),
        sent_s=seconds(sent.sent_ns),
        first_s=seconds(chunks[0]),
        last_s=seconds(chunks[-1]),
        gaps_s=tuple((after - before) / 1e9 for before, after in pairwise(chunks)),
        tokens_by_gap=() if cannot_be else _tokens_by_gap(answer),
        wanted_tokens=sent.prompt.output_tokens,
        output_tokens=None if cannot_be else counted,
        miscounted=counted if cannot_be else None,
        prompt_tokens=prompt,
        cached_tokens=None if cached is not None and prompt is not None and cached > prompt else cached,
        in_flight=sent.in_flight,
        server_prompt_s=None if answer.server_prompt_ms is None else answer.server_prompt_ms / 1e3,
        server_token_s=None if answer.server_token_ms is None else answer.server_token_ms / 1e3,
    )


def _tokens_by_gap(answer: Answer) -> tuple[int, ...]:
    """Tokens after each gap: by the server's running count, or one each where it sent as many chunks as tokens."""
    if answer.tokens_by_chunk:
        return tuple(max(0, after - before) for before, after in pairwise(answer.tokens_by_chunk))
    return (1,) * (len(answer.chunks_ns) - 1) if len(answer.chunks_ns) == answer.output_tokens else ()


def record_histograms(requests: Sequence[AnsweredRequest]) -> dict[str, Histogram]:
    """The whole distribution of each kind of time, by the names of ``FORMULAS``."""
    are_kept_back = one_piece_share(requests) >= KEPT_BACK
    # Neither the first token nor any other of an answer in one piece has a time where the server keeps answers back.
    timed = [request for request in requests if not (request.in_one_piece and are_kept_back)]
    values_ns = {
        "total": [_ns(request.last_s - request.due_s) for request in requests],
        "send_lag": [_ns(request.sent_s - request.due_s) for request in requests],
        "first_token": [_ns(request.first_s - request.due_s) for request in timed],
        "first_token_sent": [_ns(request.first_s - request.sent_s) for request in timed],
        "per_token": [_ns(request.per_token_s) for request in timed if request.per_token_s is not None],
        "chunk_gap": [_ns(gap) for request in timed for gap in request.gaps_s],
    }
    found = {name: Histogram.from_values(values) for name, values in values_ns.items()}
    found["token_gap"] = Histogram()
    for request in timed:
        for gap, tokens in zip(request.gaps_s, request.tokens_by_gap, strict=False):
            found["token_gap"].record(_ns(gap / tokens) if tokens else 0, tokens)
    return {name: found[name] for name in FORMULAS if found[name].count}


def one_piece_share(requests: Sequence[AnsweredRequest]) -> float:
    """Share of the answers whose tokens came together."""
    return sum(request.in_one_piece for request in requests) / max(1, len(requests))


def _ns(seconds: float) -> int:
    return max(0, round(seconds * 1e9))


def measure_elapsed(requests: Sequence[AnsweredRequest], *, is_open: bool) -> float:
    """The time that this many requests took, s.

    A closed loop: from the start to the last end. An open loop ends with a tail in which nothing new arrives, so the
    rate is that of the ends: n of them in ``(last end - first end) n / (n - 1)``, which is the rate of arrivals while
    the server keeps up, and the server's own when it does not.
    """
    ends = sorted(request.last_s for request in requests)
    if is_open and len(ends) > 2 and ends[-1] > ends[0]:
        return (ends[-1] - ends[0]) * len(ends) / (len(ends) - 1)
    return ends[-1] if ends else 0.0


def growth(moments: Sequence[float], values: Sequence[float]) -> float:
    """How much values grow over the reading at least, as a share of their mean: the 95% bound of their line.

    Requests near each other wait for the same queue, so the line goes through the means of ten parts of equal numbers.
    0 for too few, and for a line that may be flat.
    """
    parts = 10
    if len(values) < 3 * parts:
        return 0.0
    ordered = [value for _, value in sorted(zip(moments, values, strict=True))]
    means = estimates.fold(ordered, parts)
    centre, middle = estimates.mean(means), (parts - 1) / 2
    squares = math.fsum((at - middle) ** 2 for at in range(parts))
    slope = math.fsum((at - middle) * (value - centre) for at, value in enumerate(means)) / squares
    residual = math.fsum((value - centre - slope * (at - middle)) ** 2 for at, value in enumerate(means))
    error = math.sqrt(residual / (parts - 2) / squares)
    least = slope - estimates.t_quantile(parts - 2) * error
    return max(0.0, least * (parts - 1) / centre) if centre > 0 else 0.0


def summarize_requests(
    requests: Sequence[AnsweredRequest], elapsed_s: float, first_token_s: float, per_token_s: float
) -> dict[str, float]:
    """Figures besides the times: sums over all requests, by the reading's time."""
    tokens = [request.output_tokens for request in requests if request.output_tokens is not None]
    prompts = [request.prompt_tokens for request in requests if request.prompt_tokens is not None]
    cached = [request.cached_tokens for request in requests if request.cached_tokens is not None]
    good = sum(request.is_good(first_token_s, per_token_s) for request in requests)
    found = {
        "goodput_requests_s": good / elapsed_s,
        "good_share": good / len(requests),
        "chunks_s": sum(len(request.gaps_s) + 1 for request in requests) / elapsed_s,
        "first_token_growth": growth(
            [request.due_s for request in requests], [request.first_s - request.due_s for request in requests]
        ),
        "in_flight_growth": growth(
            [request.due_s for request in requests], [float(request.in_flight) for request in requests]
        ),
    }
    pieces = one_piece_share(requests)
    shares = {
        "one_piece_share": pieces if pieces >= KEPT_BACK else 0.0,
        "miscounted_share": sum(request.miscounted is not None for request in requests) / len(requests),
        "miscounted_tokens": max((request.miscounted or 0 for request in requests), default=0),
    }
    found |= {name: share for name, share in shares.items() if share}
    if len(tokens) == len(requests):
        counted = sum(tokens)
        short = sum(
            request.output_tokens < request.wanted_tokens for request in requests if request.output_tokens is not None
        )
        found |= {
            "output_tokens_s": counted / elapsed_s,
            "output_tokens_mean": counted / len(tokens),
            "short_share": short / len(requests),
            "tokens_a_chunk": counted / sum(len(request.gaps_s) + 1 for request in requests),
        }
    if prompts:
        found |= {"prompt_tokens_s": sum(prompts) / elapsed_s, "prompt_tokens_mean": estimates.mean(prompts)}
        found |= {"cached_share": sum(cached) / sum(prompts)} if cached and sum(prompts) else {}
    return found | _by_server(requests)


def _by_server(requests: Sequence[AnsweredRequest]) -> dict[str, float]:
    """The server's own times beside the client's, s: of the prompt, and a token after the first."""
    prompts = [request.server_prompt_s for request in requests if request.server_prompt_s is not None]
    tokens = [request.server_token_s for request in requests if request.server_token_s is not None]
    found = {"server_prompt_s": estimates.mean(prompts)} if prompts else {}
    return found | ({"server_token_s": estimates.mean(tokens)} if tokens else {})


def list_faults(answers: Iterable[Answer]) -> list[dict[str, object]]:
    """The failures by kind, each with the server's first message."""
    counts: Counter[str] = Counter()
    says: dict[str, str] = {}
    for answer in answers:
        if answer.failure:
            counts[answer.failure] += 1
            says[answer.failure] = says.get(answer.failure) or answer.complaint
    return [
        {"operation": "request", "errno": 0, "count": count, "says": f"{kind}: {says[kind]}" if says[kind] else kind}
        for kind, count in counts.most_common()
    ]
