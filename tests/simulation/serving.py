"""A served language model that does not exist: continuous batching with slots, by the clock of a simulation.

Each step gives every running request one token and takes ``step_s`` plus ``sequence_s`` a request; a prompt is computed
between steps. What is true of it is known: ``capacity_s`` and what limits it.
"""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any

from hwdyno.measure.serving.prompts import Prompt
from hwdyno.measure.serving.reading import SendRecord, make_reading
from hwdyno.measure.serving.request_figures import AnsweredRequest
from hwdyno.measure.workloads.inference_serving import KERNEL, make_load


@dataclass(frozen=True)
class SimulatedServer:
    """Its laws, and what is planted."""

    prompt_s: float = 0.020
    """Time of one prompt, while no token is made."""
    step_s: float = 0.010
    sequence_s: float = 0.0002
    slots: int = 8
    noise: float = 0.02
    tokens_a_chunk: int = 1
    client_s_a_chunk: float = 8e-6
    """CPU time of the client."""
    is_client_full: bool = False
    failed_share: float = 0.0
    ends_after: int = 1 << 30
    """Tokens after which a third of the answers ends."""
    cached_share: float = 0.0
    cpu_busy: float = 0.4

    def capacity_s(self, output_tokens: int) -> float:
        """Requests/s with every slot in use: a request costs its prompt and its part of each step."""
        step = (self.step_s + self.sequence_s * self.slots) / self.slots
        return 1 / (self.prompt_s + (output_tokens - 1) * step)


@dataclass
class _Running:
    prompt: Prompt
    due_s: float
    sent_s: float
    in_flight: int
    has_waited: bool = False
    moments: list[float] = field(default_factory=list)


def run(server: SimulatedServer, given: dict[str, Any], draw: random.Random) -> dict[str, Any]:
    """A Reading of the kernel on this server."""
    load = make_load(given)
    requests, waited = _served(server, given, draw)
    failures = [request for request in requests if draw.random() < server.failed_share]
    whole = [request for request in requests if request not in failures]
    chunks = sum(len(request.gaps_s) + 1 for request in whole)
    elapsed = max((request.last_s for request in whole), default=0.0)
    cpu_s = 0.97 * elapsed if server.is_client_full else min(0.9 * elapsed, chunks * server.client_s_a_chunk)
    faults = [{"operation": "request", "errno": 0, "says": "status 500", "count": len(failures)}] if failures else []
    taken = SendRecord(
        failures=len(failures),
        faults=faults,
        cpu_user_s=0.6 * cpu_s,
        cpu_system_s=0.4 * cpu_s,
        connections=load.users,
        waited_for_connection=waited,
    )
    return make_reading(KERNEL, given, load, whole, taken)


class _Client:
    """The load: which requests are due, and which may go."""

    def __init__(self, given: dict[str, Any]) -> None:
        self.load = make_load(given)
        self.end_s = float(given["runtime"])
        self.connections = int(given["connections"]) if self.load.is_open else self.load.users
        self.prompts = self.load.prompts()
        self.arrivals: Iterator[Any] = iter(self.load.arrivals()) if self.load.is_open else iter(())
        self.next = next(self.arrivals, None)
        self.users = [0.0] * (0 if self.load.is_open else self.load.users)
        self.due: deque[_Running] = deque()
        self.waited = 0

    def go(self, now: float, in_use: int) -> Iterator[_Running]:
        """The requests that are sent until now."""
        while self.load.is_open and self.next is not None and self.next.due_s <= min(now, self.end_s):
            self._is_due(self.next.due_s, self.next.prompt, in_use)
            self.next = next(self.arrivals, None)
        for at in [start_s for start_s in self.users if start_s <= now and start_s < self.end_s]:
            self.users.remove(at)
            self._is_due(at, next(self.prompts), in_use)
        while self.due and in_use < self.connections:
            request = self.due.popleft()
            yield replace(request, sent_s=now) if request.has_waited else request
            in_use += 1
        for request in self.due:
            self.waited += not request.has_waited
            request.has_waited = True

    def _is_due(self, due_s: float, prompt: Prompt, in_use: int) -> None:
        self.due.append(_Running(prompt, due_s, due_s, in_use + len(self.due) + 1))

    def next_s(self) -> float | None:
        """When the next request is due."""
        times = [start_s for start_s in self.users if start_s < self.end_s]
        if self.load.is_open and self.next is not None and self.next.due_s <= self.end_s:
            times.append(self.next.due_s)
        return min(times, default=None)

    def ended(self, now: float) -> None:
        if not self.load.is_open:
            self.users.append(now + self.load.think_s)


def _served(server: SimulatedServer, given: dict[str, Any], draw: random.Random) -> tuple[list[AnsweredRequest], int]:
    client, done = _Client(given), list[AnsweredRequest]()
    waiting: deque[_Running] = deque()
    running: list[_Running] = []
    now = 0.0
    while True:
        waiting.extend(client.go(now, len(waiting) + len(running)))
        if not waiting and not running:
            due = client.next_s()
            if due is None:
                return done, client.waited
            now = max(now, due)
            continue
        while waiting and len(running) < server.slots:
            request = waiting.popleft()
            running.append(request)
            now += server.prompt_s * (1 - server.cached_share) * draw.lognormvariate(0, server.noise)
            request.moments.append(now)
        step = (server.step_s + server.sequence_s * len(running)) * draw.lognormvariate(0, server.noise)
        now += step
        for request in list(running):
            if len(request.moments) < _wanted(server, request):
                request.moments.append(now)
            if len(request.moments) >= _wanted(server, request):
                running.remove(request)
                done.append(_request(server, request))
                client.ended(request.moments[-1])


def _wanted(server: SimulatedServer, request: _Running) -> int:
    return (
        min(request.prompt.output_tokens, server.ends_after)
        if request.prompt.seed % 3 == 0
        else request.prompt.output_tokens
    )


def _request(server: SimulatedServer, request: _Running) -> AnsweredRequest:
    tokens = len(request.moments)
    chunks = request.moments[:: server.tokens_a_chunk]
    known = server.tokens_a_chunk == 1
    return AnsweredRequest(
        due_s=request.due_s,
        sent_s=request.sent_s + 2e-5,
        first_s=chunks[0],
        last_s=chunks[-1],
        gaps_s=tuple(after - before for before, after in pairwise(chunks)),
        tokens_by_gap=(1,) * (len(chunks) - 1) if known else (),
        wanted_tokens=request.prompt.output_tokens,
        output_tokens=tokens,
        prompt_tokens=request.prompt.tokens,
        cached_tokens=round(server.cached_share * request.prompt.tokens),
        in_flight=request.in_flight,
    )
