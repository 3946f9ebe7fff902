"""What a server answered: the moments of its chunks, its own counts and times, or why it is no answer."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from hwdyno.measure.serving import wire
from hwdyno.model.units import is_number

MAX_COUNT = 1 << 40
LONGEST_COMPLAINT = 160
"""Characters of a server's own message."""
LONGEST_WAIT_S = 60.0
"""Longest pause that a server may request; the next request comes after it."""


@dataclass(frozen=True, slots=True)
class Answer:
    """One response, read. Moments are ns of the monotonic clock."""

    failure: str = ""
    """Why it does not count, in a few words such as ``status 429``; empty for a whole answer."""
    complaint: str = ""
    """The server's message about it."""
    retry_after_s: float = 0.0
    chunks_ns: tuple[int, ...] = ()
    """Moments of each chunk with content; of each with a choice, where no chunk has content."""
    tokens_by_chunk: tuple[int, ...] = ()
    """Tokens that had come with each chunk, where the server counts on (``continuous_usage_stats``)."""
    prompt_tokens: int | None = None
    output_tokens: int | None = None
    """Tokens by the server's ``usage``; none where it gives none."""
    max_tokens: int = MAX_COUNT
    """That its events can carry: a token has at least a byte of text, or is an event without text."""
    cached_tokens: int | None = None
    """Tokens of the prompt that the server had computed for an earlier request."""
    server_prompt_ms: float | None = None
    """The server's own time of the prompt (llama.cpp's ``timings``)."""
    server_token_ms: float | None = None
    """The server's own time a token after the first."""
    finish: str = ""
    """Why it ended: ``length``, ``stop`` …"""


def read_answer(exchange: wire.Exchange, failure: str = "") -> Answer:
    """Read a response; ``failure`` is what the client saw of it, such as a connection that broke."""
    head = exchange.head
    if head is not None and head.status != 200:
        complaint = _complaint(wire.join_body(exchange))
        return Answer(f"status {head.status}", complaint, _pause_s(head.headers.get("retry-after", "")))
    if failure in {"cut", "timeout", "reset"} or not failure:
        return _read_stream(exchange, failure)
    return Answer(failure)


def _read_stream(exchange: wire.Exchange, failure: str) -> Answer:
    head = exchange.head
    if head is None:
        return Answer(f"{failure} before the first byte" if failure else "not HTTP")
    if not head.is_stream:
        kind = head.headers.get("content-type", "").partition(";")[0].strip().lower()
        return Answer(f"no event stream but {_short(kind or 'nothing')}", _complaint(wire.join_body(exchange)))
    reader = _Reader()
    for moment, data in wire.parse_events(exchange):
        if data.strip() == b"[DONE]":
            reader.is_done = True
            continue
        try:
            event = json.loads(data)
        except (ValueError, RecursionError):
            return Answer("not JSON", _short(data.decode("latin-1")))
        if not isinstance(event, dict):
            return Answer("not JSON of an event", _short(data.decode("latin-1")))
        if event.get("error"):
            return Answer("error within the stream", _message(event))
        reader.take(moment, event)
    return reader.answer(failure)


class _Reader:
    """Gathers the events of one answer."""

    def __init__(self) -> None:
        self.is_done = False
        self._max_tokens = 0
        self._choices: list[int] = []
        self._content: list[int] = []
        self._counts: list[int | None] = []
        self._usage: Mapping[str, Any] = {}
        self._timings: Mapping[str, Any] = {}
        self._finish = ""

    def take(self, moment: int, event: Mapping[str, Any]) -> None:
        """One event, in order."""
        usage = event.get("usage")
        if isinstance(usage, dict):
            self._usage = usage
        timings = event.get("timings")
        if isinstance(timings, dict):
            self._timings = timings
        choices = event.get("choices")
        choice = choices[0] if isinstance(choices, list) and choices and isinstance(choices[0], dict) else None
        if choice is None:
            return
        self._choices.append(moment)
        if choice.get("finish_reason"):
            self._finish = _short(str(choice["finish_reason"]))
        delta = choice.get("delta")
        parts = [choice.get("text")]
        if isinstance(delta, dict):
            parts = [delta.get(name) for name in ("content", "reasoning_content", "reasoning", "tool_calls")]
        self._max_tokens += max(1, sum(map(_count_bytes, parts)))
        if any(parts):
            self._content.append(moment)
            self._counts.append(_count(usage, "completion_tokens") if isinstance(usage, dict) else None)

    def answer(self, failure: str) -> Answer:
        """The whole answer, or what there was of it when it failed."""
        if not failure and not self.is_done and not self._finish:
            failure = "cut"
        chunks = self._content or self._choices
        if failure:
            return Answer(f"{failure} {'within the answer' if chunks else 'before the first token'}")
        details = self._usage.get("prompt_tokens_details")
        cached = _count(details, "cached_tokens") if isinstance(details, dict) else None
        counts = [count for count in self._counts if count is not None]
        output_tokens = _count(self._usage, "completion_tokens")
        if not chunks or not (self._content or output_tokens):
            return Answer("an answer without a token")
        return Answer(
            chunks_ns=tuple(chunks),
            tokens_by_chunk=tuple(counts) if len(counts) == len(chunks) else (),
            prompt_tokens=_count(self._usage, "prompt_tokens"),
            output_tokens=output_tokens,
            max_tokens=self._max_tokens,
            cached_tokens=_count(self._timings, "cache_n") if cached is None else cached,
            server_prompt_ms=_milliseconds(self._timings, "prompt_ms"),
            server_token_ms=_milliseconds(self._timings, "predicted_per_token_ms"),
            finish=self._finish,
        )


def _count(values: Mapping[str, Any], name: str) -> int | None:
    value = values.get(name)
    return int(value) if is_number(value) and 0 <= value < MAX_COUNT else None


def _count_bytes(part: Any) -> int:
    """Bytes of a part of an answer: text, or the JSON of calls of tools."""
    text = part if isinstance(part, str) else json.dumps(part) if part else ""
    return len(text.encode("utf-8", "surrogatepass"))


def _milliseconds(values: Mapping[str, Any], name: str) -> float | None:
    value = values.get(name)
    return float(value) if is_number(value) and 0 <= value < MAX_COUNT else None


def _pause_s(text: str) -> float:
    """The seconds of a ``Retry-After``; a date counts as none."""
    try:
        seconds = float(text)
    except ValueError:
        return 0.0
    return min(LONGEST_WAIT_S, seconds) if math.isfinite(seconds) and seconds > 0 else 0.0


def _complaint(body: bytes) -> str:
    """The message of an error's body: that of its JSON, or its first line."""
    text = body[:4096].decode("utf-8", "replace")
    try:
        return _message(json.loads(text))
    except (ValueError, RecursionError):
        return _short(text)


def _message(document: Any) -> str:
    """What an error's JSON says, in OpenAI's form or a plain one."""
    error = document.get("error", document) if isinstance(document, dict) else document
    says = (error.get("message") or error.get("detail") or error) if isinstance(error, dict) else error
    return _short(says if isinstance(says, str) else json.dumps(says))


def _short(text: str) -> str:
    """One printable line."""
    line = " ".join(text.split())
    shown = "".join(character if character.isprintable() else "?" for character in line)
    return shown[:LONGEST_COMPLAINT]
