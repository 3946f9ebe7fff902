"""Sends a load to a model in this process: a thread that sends, and the engine's loop, which answers in steps.

Both note moments by one clock. A request waits in the engine's queue until a slot is free, as at a server, so that the
figures have the definitions of ``request_figures`` here too.
"""

from __future__ import annotations

import heapq
import resource
import sys
import threading
import time
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Protocol

from hwdyno.measure.serving.prompts import Prompt, token_ids
from hwdyno.measure.serving.request_figures import AnsweredRequest
from hwdyno.measure.serving.schedule import Due, Load

TOO_LONG = "prompt and answer are longer than the context"
"""The failure of a request that no slot has room for."""
_SWITCH_S = 1e-4
"""How long the engine's loop may keep the interpreter from the thread that sends."""


class Engine(Protocol):
    """A model that answers several requests at once, a slot each."""

    slots: int
    context: int
    past: list[int]
    """Tokens in the KV cache by slot."""

    def start(self, slot: int, ids: Sequence[int]) -> None:
        """Compute a prompt into a slot, up to its first token."""
        ...

    def step(self, slots: Sequence[int]) -> None:
        """One token more in each slot."""
        ...


@dataclass(frozen=True, slots=True)
class Spent:
    """What the engine's loop did, in seconds and in tokens."""

    prompt_s: float = 0.0
    """Computing prompts."""
    step_s: float = 0.0
    """Making tokens after the first ones."""
    idle_s: float = 0.0
    """Time without a request."""
    prompt_tokens: int = 0
    steps: int = 0
    stepped_tokens: int = 0
    """Made by steps: all but the first of each answer."""
    context_tokens: int = 0
    """Tokens of context that all steps read, over all their slots."""


@dataclass(frozen=True, slots=True)
class InProcessResult:
    """What one reading brought."""

    requests: tuple[AnsweredRequest, ...]
    failures: int
    """Requests that no slot has room for."""
    spent: Spent
    client_user_s: float
    client_system_s: float


@dataclass(slots=True)
class _Sent:
    """One request on its way; moments are seconds from the start."""

    prompt: Prompt
    ids: Sequence[int]
    due_s: float
    sent_s: float
    in_flight: int
    moments_s: list[float] = field(default_factory=list)


def drive(engine: Engine, load: Load, *, runtime_s: float, min_requests: int = 0) -> InProcessResult:
    """Send the load for as long as ``runtime_s`` says, and answer all that was sent."""
    switch_s = sys.getswitchinterval()
    sys.setswitchinterval(_SWITCH_S)
    try:
        client = _Client(load, runtime_s, min_requests)
        return _EngineLoop(engine, client).run()
    finally:
        sys.setswitchinterval(switch_s)


class _Client(threading.Thread):
    """Sends each request when it is due, however long the engine's steps take."""

    def __init__(self, load: Load, runtime_s: float, min_requests: int) -> None:
        super().__init__(daemon=True)
        self.load, self.runtime_s, self.min_requests = load, runtime_s, min_requests
        self.changed = threading.Condition()
        self.queue: deque[_Sent] = deque()
        self.in_flight = self.begun = 0
        self.is_over = False
        self.user_s = self.system_s = 0.0
        self._wakes: list[float] = []
        """When users of a closed loop send again, as a heap."""
        self._prompts = load.prompts()
        self._arrivals: Iterator[Due] = iter(())
        self._next: Due | None = None
        self._ready: deque[tuple[Due, Sequence[int]]] = deque()

    def begin(self) -> None:
        """Write the first requests and start the clock."""
        if self.load.is_open:
            self._arrivals = iter(self.load.arrivals_until(self.runtime_s))
        else:
            self._wakes = [0.0] * self.load.users
        self._write(max(2 * self.load.users, 64))
        self.started = time.perf_counter()
        self.start()

    def now(self) -> float:
        """Seconds from the start."""
        return time.perf_counter() - self.started

    def run(self) -> None:
        """Send until the time is over."""
        before = resource.getrusage(resource.RUSAGE_THREAD)
        with self.changed:
            while (due_s := self._due_s()) is not None:
                wait_s = due_s - self.now()
                if wait_s > 0:
                    self.changed.wait(None if due_s == _NEVER else wait_s)
                else:
                    self._send(due_s)
            self.is_over = True
            self.changed.notify_all()
        after = resource.getrusage(resource.RUSAGE_THREAD)
        self.user_s, self.system_s = after.ru_utime - before.ru_utime, after.ru_stime - before.ru_stime

    def finish_request(self, at_s: float) -> None:
        """A request is over; its user sends again after a pause."""
        with self.changed:
            self.in_flight -= 1
            if not self.load.is_open:
                heapq.heappush(self._wakes, at_s + self.load.think_s)
            self.changed.notify_all()

    def _due_s(self) -> float | None:
        """When the next request is due: ``_NEVER`` while all users wait for answers, none after the last request."""
        if self.load.is_open:
            self._write(1)
            return self._ready[0][0].due_s if self._ready else None
        if self.now() >= self.runtime_s and self.begun >= self.min_requests:
            return None
        due_s = self._wakes[0] if self._wakes else _NEVER
        return due_s if due_s < self.runtime_s or self.begun < self.min_requests else None

    def _send(self, due_s: float) -> None:
        self._write(1)
        due, ids = self._ready.popleft()
        if not self.load.is_open:
            heapq.heappop(self._wakes)
        self.begun += 1
        self.in_flight += 1
        self.queue.append(_Sent(due.prompt, ids, due_s, self.now(), self.in_flight))
        self.changed.notify_all()

    def _write(self, count: int) -> None:
        """Have this many requests ready, as far as there are any."""
        while len(self._ready) < count:
            due = next(self._arrivals, None) if self.load.is_open else Due(0.0, next(self._prompts))
            if due is None:
                return
            self._ready.append((due, token_ids(due.prompt)))


_NEVER = float("inf")


class _EngineLoop:
    """The engine's side: prompts into free slots, then a step for all slots in use."""

    def __init__(self, engine: Engine, client: _Client) -> None:
        self.engine, self.client = engine, client
        self.running: dict[int, _Sent] = {}
        self.done: list[AnsweredRequest] = []
        self.failures = 0
        self.prompt_s = self.step_s = self.idle_s = 0.0
        self.prompt_tokens = self.steps = self.stepped_tokens = self.context_tokens = 0

    def run(self) -> InProcessResult:
        """Answer until the client is through and nothing is left."""
        client = self.client
        client.begin()
        while self._wait():
            for slot in range(self.engine.slots):
                if slot not in self.running and client.queue:
                    self._start(slot, client.queue.popleft())
            if self.running:
                self._step()
        client.join()
        spent = Spent(
            self.prompt_s, self.step_s, self.idle_s, self.prompt_tokens, self.steps, self.stepped_tokens,
            self.context_tokens,
        )  # fmt: skip
        return InProcessResult(tuple(self.done), self.failures, spent, client.user_s, client.system_s)

    def _wait(self) -> bool:
        """Wait until there is something to answer; false where nothing will come any more."""
        client, begun = self.client, time.perf_counter()
        if self.running or client.queue:
            return True
        with client.changed:
            while not client.queue and not client.is_over:
                client.changed.wait()
            self.idle_s += time.perf_counter() - begun
            return bool(client.queue)

    def _start(self, slot: int, sent: _Sent) -> None:
        if len(sent.ids) + sent.prompt.output_tokens > self.engine.context:
            self.failures += 1
            self.client.finish_request(self.client.now())
            return
        begun = time.perf_counter()
        self.engine.start(slot, sent.ids)
        self.prompt_s += time.perf_counter() - begun
        self.prompt_tokens += len(sent.ids)
        self.running[slot] = sent
        self._token(slot, self.client.now())

    def _step(self) -> None:
        slots = sorted(self.running)
        begun = time.perf_counter()
        self.engine.step(slots)
        self.step_s += time.perf_counter() - begun
        now = self.client.now()
        self.steps += 1
        self.stepped_tokens += len(slots)
        self.context_tokens += sum(self.engine.past[slot] for slot in slots)
        for slot in slots:
            self._token(slot, now)

    def _token(self, slot: int, now: float) -> None:
        sent = self.running[slot]
        sent.moments_s.append(now)
        if len(sent.moments_s) < sent.prompt.output_tokens:
            return
        del self.running[slot]
        self.done.append(_answered_request(sent))
        self.client.finish_request(now)


def _answered_request(sent: _Sent) -> AnsweredRequest:
    """An answered request: a token is a chunk here."""
    moments = sent.moments_s
    return AnsweredRequest(
        due_s=sent.due_s,
        sent_s=sent.sent_s,
        first_s=moments[0],
        last_s=moments[-1],
        gaps_s=tuple(after - before for before, after in pairwise(moments)),
        tokens_by_gap=(1,) * (len(moments) - 1),
        wanted_tokens=sent.prompt.output_tokens,
        output_tokens=len(moments),
        prompt_tokens=len(sent.ids),
        in_flight=sent.in_flight,
    )
