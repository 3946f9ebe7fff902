"""HTTP responses as they came from the socket: when one is complete, and its content, read after the run."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from hwdyno.measure.engine import Chunks

LONGEST_HEAD = 64 << 10
"""Bytes of a response's head."""
MAX_BYTES = 64 << 20
"""Bytes of one response at most."""
_HEAD_END = b"\r\n\r\n"
_STATUS = re.compile("[1-9][0-9][0-9]", re.ASCII)
_LENGTH = re.compile("[0-9]{1,12}", re.ASCII)
_DATA = re.compile(rb"^data:[ ]?([^\r\n]*)", re.MULTILINE)


class WireError(ValueError):
    """A response that is not HTTP as a server of a language model answers; its text is a failure's kind."""


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


def parse_head(data: bytes | bytearray) -> Head | None:
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
    if not status or not _STATUS.fullmatch(status[0]):
        raise WireError("not HTTP")
    pairs = (line.partition(":") for line in lines)
    headers = {name.strip().lower(): value.strip() for name, _, value in pairs}
    is_chunked = headers.get("transfer-encoding", "").lower().split(",")[-1].strip() == "chunked"
    announced = headers.get("content-length", "")
    is_known = bool(_LENGTH.fullmatch(announced)) and not is_chunked
    return Head(int(status[0]), headers, end + 4, is_chunked, int(announced) if is_known else None)


@dataclass(slots=True)
class Exchange:
    """The bytes of one response with the size and the moment of each piece, ns of the monotonic clock."""

    data: bytearray = field(default_factory=bytearray)
    sizes: list[int] = field(default_factory=list)
    times_ns: list[int] = field(default_factory=list)
    head: Head | None = None
    chunks: Chunks | None = None
    """Those of the body, where it comes in such."""

    @property
    def size(self) -> int:
        """Its bytes."""
        return len(self.data)

    def add(self, data: bytes, sizes: Sequence[int], times_ns: Sequence[int]) -> bool:
        """Take pieces that follow each other; whether the response is complete. Raises ``WireError``."""
        before, body_at = len(self.data), 0
        self.data += data
        self.sizes += sizes
        self.times_ns += times_ns
        head = self.head
        if head is None:
            head = self.head = parse_head(self.data)
            if head is None:
                return False
            if head.is_chunked:
                # Without the last byte of them the head was not whole.
                self.chunks, body_at = Chunks(head.length), head.length - before
        if self.size > MAX_BYTES:
            raise WireError("endless answer")
        if self.chunks is not None:
            is_over = self.chunks.take(data, body_at)
            if is_over is None:
                raise WireError("wrong chunk")
            return is_over
        wanted = head.body_bytes
        return wanted is not None and self.size >= head.length + wanted


def list_spans(exchange: Exchange) -> list[tuple[int, int]]:
    """The places of the body's bytes in the response, as far as they came."""
    head = exchange.head
    if head is None:
        return []
    if exchange.chunks is None:
        wanted = head.body_bytes
        return [(head.length, exchange.size if wanted is None else min(exchange.size, head.length + wanted))]
    return exchange.chunks.spans()


def join_body(exchange: Exchange) -> bytes:
    """The body as far as it came."""
    return b"".join(exchange.data[start:end] for start, end in list_spans(exchange))


def parse_events(exchange: Exchange) -> Iterator[tuple[int, bytes]]:
    """The data of each server-sent event with the moment at which its line was complete.

    An event of several ``data`` lines, which no server of this interface sends, counts as one event a line.
    """
    body, moments = join_body(exchange), _Moments(exchange)
    for found in _DATA.finditer(body):
        # Without its line's end it was cut off.
        if found.end() < len(body):
            yield moments.find_moment(found.end() + 1), found[1]


class _Moments:
    """When each byte of the body came; to be called in order."""

    def __init__(self, exchange: Exchange) -> None:
        self._times = exchange.times_ns
        self._sizes = exchange.sizes
        self._spans = list_spans(exchange)
        self._span = self._before = 0
        self._piece, self._came = 0, self._sizes[0] if self._sizes else 0

    def find_moment(self, length: int) -> int:
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
