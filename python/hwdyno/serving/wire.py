"""HTTP responses as they came from the socket: when one is complete, and what stands in it, read after the run."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

LONGEST_HEAD = 64 << 10
"""Bytes of a response's head."""
MOST_BYTES = 64 << 20
"""Of one response."""
_HEAD_END = b"\r\n\r\n"
"""How a head ends, and the last chunk of a body."""
_CHUNK_SIZE = re.compile(rb"([0-9A-Fa-f]{1,12})[ \t]*(?:;[^\r\n]*)?\r\n")
_DATA = re.compile(rb"^data:[ ]?([^\r\n]*)", re.MULTILINE)


class WireError(ValueError):
    """A response that is not HTTP as a server of a language model speaks it; its text is a failure's kind."""


@dataclass(frozen=True, slots=True)
class Head:
    """The status and the headers of a response."""

    status: int
    headers: dict[str, str]
    length: int
    """Its own bytes, with the empty line."""
    is_chunked: bool
    """Whether the body comes in chunks."""
    body_bytes: int | None
    """The body's length, where it was announced."""

    @property
    def is_stream(self) -> bool:
        """Whether it begins a stream of events."""
        kind = self.headers.get("content-type", "").partition(";")[0].strip().lower()
        return self.status == 200 and kind == "text/event-stream"

    @property
    def closes(self) -> bool:
        """Whether the server will close the connection after it."""
        framed = self.is_chunked or self.body_bytes is not None
        return not framed or self.headers.get("connection", "").lower() == "close"


def head_of(data: bytes) -> Head | None:
    """The head that ``data`` begins with; none while it is incomplete. Raises ``WireError``."""
    end = data.find(_HEAD_END, 0, LONGEST_HEAD)
    if not b"HTTP/1.".startswith(data[:7]) and not data.startswith(b"HTTP/1."):
        raise WireError("not HTTP")
    if end < 0:
        if len(data) >= LONGEST_HEAD:
            raise WireError("endless head")
        return None
    first, *lines = data[:end].decode("latin-1").split("\r\n")
    status = first.split(" ")[1:2]
    if not status or not re.fullmatch("[1-9][0-9][0-9]", status[0], re.ASCII):
        raise WireError("not HTTP")
    pairs = (line.partition(":") for line in lines)
    headers = {name.strip().lower(): value.strip() for name, _, value in pairs}
    is_chunked = headers.get("transfer-encoding", "").lower().split(",")[-1].strip() == "chunked"
    announced = headers.get("content-length", "")
    is_known = bool(re.fullmatch("[0-9]{1,12}", announced, re.ASCII)) and not is_chunked
    return Head(int(status[0]), headers, end + 4, is_chunked, int(announced) if is_known else None)


@dataclass(slots=True)
class Exchange:
    """The bytes of one response with the moment of each piece, ns of the monotonic clock."""

    pieces: list[bytes] = field(default_factory=list)
    times_ns: list[int] = field(default_factory=list)
    size: int = 0
    head: Head | None = None
    walked: int = 0
    """How far ``is_complete`` has gone through the chunks, from the response's first byte."""
    joined: bytearray = field(default_factory=bytearray)
    """The pieces that ``is_complete`` has joined, ``joined_count`` of them."""
    joined_count: int = 0

    def add(self, data: bytes, now_ns: int) -> bool:
        """Take a piece; whether the response is complete. Raises ``WireError``.

        The body's chunks are walked only where a piece ends as a last chunk can, so that a token costs little.
        """
        self.pieces.append(data)
        self.times_ns.append(now_ns)
        self.size += len(data)
        head = self.head
        if head is None:
            head = self.head = head_of(b"".join(self.pieces))
            if head is None:
                return False
            self.walked = head.length
        elif self.size > MOST_BYTES:
            raise WireError("endless answer")
        if head.is_chunked:
            tail = data[-4:] if len(data) > 3 else b"".join(self.pieces[-4:])[-4:]
            return tail == _HEAD_END and self._last_chunk_came()
        wanted = head.body_bytes
        return wanted is not None and self.size >= head.length + wanted

    def keep(self, data: bytes, sizes: Sequence[int], times_ns: Sequence[int]) -> None:
        """Take pieces that lie one behind the other and are not the response's last."""
        at = 0
        for size in sizes:
            self.pieces.append(data[at : at + size])
            at += size
        self.times_ns += times_ns
        self.size += at

    def _all(self) -> bytearray:
        for piece in self.pieces[self.joined_count :]:
            self.joined += piece
        self.joined_count = len(self.pieces)
        return self.joined

    def _last_chunk_came(self) -> bool:
        data = self._all()
        while True:
            size = _chunk_at(data, self.walked)
            if size is None:
                return False
            length, start = size
            if length == 0:
                return data.find(_HEAD_END, start - 2) >= 0
            if start + length + 2 > len(data):
                return False
            self.walked = start + length + 2


def _chunk_at(data: bytes | bytearray, at: int) -> tuple[int, int] | None:
    """The size of the chunk at a place and where its bytes begin; none while it is incomplete."""
    found = _CHUNK_SIZE.match(data, at)
    if found is not None:
        return int(found[1], 16), found.end()
    if len(data) - at > 1024 or b"\r\n" in data[at:]:
        raise WireError("wrong chunk")
    return None


def spans_of(exchange: Exchange) -> list[tuple[int, int]]:
    """Where the body's bytes lie in the response, as far as they came. Raises ``WireError``."""
    head = exchange.head
    if head is None:
        return []
    if not head.is_chunked:
        wanted = head.body_bytes
        return [(head.length, exchange.size if wanted is None else min(exchange.size, head.length + wanted))]
    data = b"".join(exchange.pieces)
    spans, at = [], head.length
    while (size := _chunk_at(data, at)) is not None:
        length, start = size
        if not length:
            break
        spans.append((start, min(start + length, len(data))))
        at = start + length + 2
        if at > len(data):
            break
    return spans


def body_of(exchange: Exchange) -> bytes:
    """The body as far as it came. Raises ``WireError``."""
    data = b"".join(exchange.pieces)
    return b"".join(data[start:end] for start, end in spans_of(exchange))


def events_of(exchange: Exchange) -> Iterator[tuple[int, bytes]]:
    """The data of each server-sent event with the moment at which its line was complete. Raises ``WireError``.

    An event of several ``data`` lines, which no server of this interface sends, counts as one event a line.
    """
    data = b"".join(exchange.pieces)
    spans = spans_of(exchange)
    body = b"".join(data[start:end] for start, end in spans)
    moments = _Moments(exchange, spans)
    for found in _DATA.finditer(body):
        # Without its line's end it was cut off.
        if found.end() < len(body):
            yield moments.of(found.end() + 1), found[1]


class _Moments:
    """When a byte of the body came, asked in order."""

    def __init__(self, exchange: Exchange, spans: Sequence[tuple[int, int]]) -> None:
        self._times = exchange.times_ns
        self._sizes = [len(piece) for piece in exchange.pieces]
        self._spans = spans
        self._span = self._before = 0
        self._piece, self._came = 0, self._sizes[0] if self._sizes else 0

    def of(self, length: int) -> int:
        """The moment at which the body's first ``length`` bytes were there."""
        while self._span < len(self._spans) - 1:
            start, end = self._spans[self._span]
            if self._before + end - start >= length:
                break
            self._before += end - start
            self._span += 1
        raw = self._spans[self._span][0] + length - self._before
        while self._came < raw and self._piece < len(self._sizes) - 1:
            self._piece += 1
            self._came += self._sizes[self._piece]
        return self._times[self._piece]
