"""Closed systems of clients as a discrete-event simulation (SimPy): nothing of it is a formula of ours."""

from __future__ import annotations

from dataclasses import dataclass

import simpy
from numpy.random import Generator

SEEN = 0.2
"""Share of the operations that are left out at the start."""


@dataclass(frozen=True)
class Clients:
    """Clients that think, go through a station that delays each alike, and wait for one of some servers."""

    servers: int
    service_s: float
    thinks_s: float
    is_exponential: bool = True
    """Whether times scatter as 1/e does; else each is the same, as of a device that moves blocks."""

    @property
    def ceiling(self) -> float:
        """The rate that no number of clients exceeds: every server is busy (utilisation law)."""
        return self.servers / self.service_s

    @property
    def crossing(self) -> float:
        """N*: as many clients as can use it up, where none waits for another."""
        return self.ceiling * (self.service_s + self.thinks_s)

    def rate(self, clients: int, operations: int, draw: Generator) -> float:
        """Operations per second with this many clients, after those that are left out."""
        world = simpy.Environment()
        station = simpy.Resource(world, capacity=self.servers)
        ends: list[float] = []
        enough = world.event()

        def time_s(mean_s: float) -> float:
            return float(draw.exponential(mean_s)) if self.is_exponential else mean_s

        def client() -> simpy.events.ProcessGenerator:
            yield world.timeout(float(draw.uniform(0, self.thinks_s + self.service_s)))
            while True:
                with station.request() as turn:
                    yield turn
                    yield world.timeout(time_s(self.service_s))
                ends.append(world.now)
                if len(ends) == operations:
                    enough.succeed()
                yield world.timeout(time_s(self.thinks_s))

        for _ in range(clients):
            world.process(client())
        world.run(until=enough)
        first = int(SEEN * len(ends))
        return (len(ends) - 1 - first) / (ends[-1] - ends[first])

    @classmethod
    def random(cls, draw: Generator) -> Clients:
        """One of a few servers, whose knee may be within 64 clients or beyond."""
        service_s = 10 ** draw.uniform(-5, -2)
        return cls(
            int(2 ** draw.uniform(0, 6)), service_s, service_s * 10 ** draw.uniform(-1, 1), bool(draw.random() < 0.7)
        )
