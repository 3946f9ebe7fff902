"""The next requests, written before they are due."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterator

from hwdyno.measure.serving.client_result import ClientSettings
from hwdyno.measure.serving.prompts import Prompt
from hwdyno.measure.serving.schedule import Due, Load


class RequestBodies:
    """The next requests, written before they are due."""

    MAX_BYTES = 64 << 20
    MAX_S = 0.3
    """Longest wait of a closed loop, whose number of requests no one knows; an open loop has all that it will send."""

    def __init__(self, load: Load, settings: ClientSettings, encode_request: Callable[[Prompt], bytes]) -> None:
        self.encode_request = encode_request
        self._prompts = load.prompts()
        self._arrivals: Iterator[Due] | None = None
        self._least = 2 * load.users
        if load.is_open:
            self._arrivals = iter(load.arrivals_until(settings.runtime_s))
        self._ready: deque[tuple[Due, bytes]] = deque()
        self._bytes = 0
        self.late = 0

    def fill(self) -> None:
        """Write requests ahead."""
        until = time.monotonic() + self.MAX_S
        while self._bytes < self.MAX_BYTES and self._one():
            if self._arrivals is None and len(self._ready) >= self._least and time.monotonic() > until:
                break

    def fill_one(self) -> None:
        """Write one more where few are left, while nothing else is to be done."""
        if len(self._ready) < self._least:
            self._one()

    def _one(self) -> bool:
        due = next(self._arrivals, None) if self._arrivals is not None else Due(0.0, next(self._prompts))
        if due is None:
            return False
        body = self.encode_request(due.prompt)
        self._bytes += len(body)
        self._ready.append((due, body))
        return True

    @property
    def first(self) -> Due | None:
        """The next request; none where there is no other."""
        if not self._ready:
            self.late += self._one()
        return self._ready[0][0] if self._ready else None

    def next(self) -> tuple[Prompt, bytes]:
        """Take the next request."""
        if not self._ready:
            self._one()
            self.late += 1
        due, body = self._ready.popleft()
        self._bytes -= len(body)
        return due.prompt, body
