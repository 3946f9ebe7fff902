"""Random machines whose throughput at each load is known exactly, and what a run of hwdyno would see of them.

Closed queueing networks have a finite number of requests that circulate. M/M/m with thinking customers is solved by
its birth-death chain, networks of single queues by mean value analysis (Reiser & Lavenberg, JACM 1980).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np
from numpy.random import Generator

QUICK, STANDARD = tuple(2**k for k in range(9)), tuple(2**k for k in range(11))
REPEATS_MIN, REPEATS_MAX = 3, 5
"""The profile quick's."""


@dataclass(frozen=True)
class Machine:
    """A machine, and how it is measured."""

    throughput: Callable[[int], float]
    """Operations a second at a load, without noise."""
    ceiling: float
    """The most that it delivers at any load."""
    loads: tuple[int, ...]
    noise: float = 0.02
    """Standard deviation of one repeat, as a share."""
    shared: float = 0.0
    """Standard deviation that all repeats of a point share."""
    reading: Callable[[int, Generator], float] | None = None
    """What one repeat delivers, where it is not the throughput with normal noise."""
    odd: tuple[int, float] | None = None
    """A load that delivers another share of its throughput."""
    loss: float = 0.0
    """What the last load loses against the peak."""

    @property
    def crossing(self) -> float:
        """N*: the ceiling times the latency of a request alone."""
        return self.ceiling / self.throughput(1)

    def repeats(self, load: int, count: int, draw: Generator) -> list[float]:
        """What ``count`` repeats of a point deliver."""
        level = math.exp(self.shared * draw.standard_normal())
        if self.odd is not None and self.odd[0] == load:
            level *= self.odd[1]
        if self.reading is not None:
            return [level * self.reading(load, draw) for _ in range(count)]
        truth = self.throughput(load)
        return [level * truth * math.exp(self.noise * draw.standard_normal()) for _ in range(count)]


@lru_cache(maxsize=100_000)
def thinking_servers(load: int, servers: int, service_s: float, think_s: float) -> float:
    """M/M/m with ``load`` customers that think between requests: its birth-death chain, exact."""
    if think_s <= 0:
        return min(load, servers) / service_s
    k = np.arange(1, load + 1)
    steps = np.log((load - k + 1) / think_s) + np.log(service_s / np.minimum(k, servers))
    logs = np.concatenate(([0.0], np.cumsum(steps)))
    weights = np.exp(logs - logs.max())
    busy = np.minimum(np.arange(load + 1), servers)
    return float((weights @ busy) / weights.sum() / service_s)


def spread_at_random(load: int, servers: int, service_s: float) -> float:
    """``load`` requests over single queues, each request at a random one: product form (Gordon & Newell 1967)."""
    return load / (load + servers - 1) * servers / service_s


@lru_cache(maxsize=100_000)
def network(load: int, demands_s: tuple[float, ...], think_s: float) -> float:
    """A closed network of single queues and a delay: exact mean value analysis."""
    demands, queue, rate = np.array(demands_s), np.zeros(len(demands_s)), 0.0
    for n in range(1, load + 1):
        residence = demands * (1 + queue)
        rate = n / (think_s + float(residence.sum()))
        queue = rate * residence
    return rate


def _uniform(draw: Generator, low: float, high: float) -> float:
    return float(draw.uniform(low, high))


def _log_uniform(draw: Generator, low: float, high: float) -> float:
    return math.exp(_uniform(draw, math.log(low), math.log(high)))


def _loads(draw: Generator) -> tuple[int, ...]:
    return QUICK if draw.random() < 0.5 else STANDARD


def one_queue(draw: Generator) -> Machine:
    """Several servers that share one queue: a hard knee."""
    loads, service = _loads(draw), _log_uniform(draw, 1e-5, 1e-3)
    servers = round(_log_uniform(draw, 3, loads[-1] / 8))
    think = service * _uniform(draw, 0.02, 0.8)
    return Machine(
        lambda n: thinking_servers(n, servers, service, think), servers / service, loads, _uniform(draw, 0.01, 0.03)
    )


def queue_behind_delay(draw: Generator) -> Machine:
    """One server behind a delay, such as a network."""
    loads, service = _loads(draw), _log_uniform(draw, 1e-6, 1e-4)
    delay = service * _log_uniform(draw, 2, loads[-1] / 8)
    return Machine(lambda n: thinking_servers(n, 1, service, delay), 1 / service, loads, _uniform(draw, 0.01, 0.03))


def dies_at_random(draw: Generator) -> Machine:
    """Independent servers, each request at a random one: a soft knee."""
    loads, service = _loads(draw), _log_uniform(draw, 1e-5, 1e-3)
    servers = round(_log_uniform(draw, 3, 0.035 * loads[-1] + 2))
    return Machine(
        lambda n: spread_at_random(n, servers, service), servers / service, loads, _uniform(draw, 0.01, 0.03)
    )


def dies_behind_controller(draw: Generator) -> Machine:
    """Independent servers behind one controller, which limits all of them together."""
    loads, service = QUICK, _log_uniform(draw, 1e-5, 1e-3)
    servers = round(_log_uniform(draw, 4, 24))
    controller = service / servers * _uniform(draw, 1.3, 3)
    demands = (*[service / servers] * servers, controller)
    return Machine(lambda n: network(n, demands, 0.2 * service), 1 / controller, loads, _uniform(draw, 0.01, 0.03))


def failing_servers(draw: Generator) -> Machine:
    """Servers of one queue that fail and come back at random: each repeat finds other ones running."""
    loads, service = _loads(draw), _log_uniform(draw, 1e-5, 1e-3)
    servers = round(_log_uniform(draw, 8, loads[-1] / 8))
    think, up = service * _uniform(draw, 0.02, 0.3), _uniform(draw, 0.85, 0.98)
    noise = _uniform(draw, 0.005, 0.02)

    def reading(load: int, at: Generator) -> float:
        working = max(1, int(at.binomial(servers, up)))
        return thinking_servers(load, working, service, think) * math.exp(noise * at.standard_normal())

    return Machine(
        lambda n: thinking_servers(n, max(1, round(servers * up)), service, think),
        servers * up / service,
        loads,
        noise,
        reading=reading,
    )


def rolls_over(draw: Generator) -> Machine:
    """Throughput that falls again past a depth: by a power of the load, in proportion to it, or down to a level."""
    base = (one_queue, queue_behind_delay, dies_at_random)[draw.integers(3)](draw)
    most, shape = base.loads[-1], draw.integers(3)
    start = _log_uniform(draw, min(most / 4, 1.5 * base.crossing), most / 2)
    power, lost = _uniform(draw, 0.06, 0.3), _uniform(draw, 0.05, 0.4)

    def throughput(load: int) -> float:
        beyond = max(0.0, math.log2(load / start))
        kept = (
            2 ** (-power * beyond),
            1 / (1 + lost * max(0.0, load - start) / (most - start)),
            1 - lost / (1 + math.exp(4 - 8 * beyond)),
        )[shape]
        return base.throughput(load) * kept

    top = max(throughput(n) for n in sorted({*np.geomspace(1, most, 200).astype(int).tolist(), int(start)}))
    return replace(base, throughput=throughput, ceiling=top, loss=1 - throughput(most) / top)


def saturated(draw: Generator) -> Machine:
    """A machine whose first load has all but a few percent of the ceiling; the latency grows with the load."""
    loads, top, share = _loads(draw), _log_uniform(draw, 1e3, 1e6), _uniform(draw, 0.97, 1.0)
    return Machine(lambda n: top * (share if n == 1 else 1.0), top, loads, _log_uniform(draw, 0.005, 0.03))


def flat(draw: Generator) -> Machine:
    """A machine that the load never reaches: throughput and latency stay level."""
    top = _log_uniform(draw, 1e3, 1e6)
    return Machine(lambda n: top, top, _loads(draw), _log_uniform(draw, 0.005, 0.03))


def shared_noise(draw: Generator) -> Machine:
    """Any closed queue, with noise that all repeats of a point share."""
    return replace(_any(draw), noise=_uniform(draw, 0.002, 0.01), shared=_uniform(draw, 0.01, 0.03))


def quiet(draw: Generator) -> Machine:
    """Any closed queue, on a machine so quiet that what the model leaves out shows."""
    return replace(_any(draw), noise=_log_uniform(draw, 0.001, 0.01))


def odd_load(draw: Generator) -> Machine:
    """Any closed queue, with one load that is 15% to 80% off its neighbours' curve."""
    machine = _any(draw)
    off = _uniform(draw, 0.15, 0.8)
    share = 1 - off if draw.random() < 0.7 else 1 + off
    place = int(draw.integers(1, len(machine.loads) - 1))
    return replace(machine, odd=(machine.loads[place], share))


def rising(draw: Generator) -> Machine:
    """A machine that would take more load than it is given."""
    loads, service = QUICK, _log_uniform(draw, 1e-5, 1e-3)
    servers = round(_log_uniform(draw, loads[-1], 4 * loads[-1]))
    return Machine(
        lambda n: spread_at_random(n, servers, service), servers / service, loads, _uniform(draw, 0.01, 0.03)
    )


def _any(draw: Generator) -> Machine:
    made = (one_queue, queue_behind_delay, dies_at_random, dies_behind_controller)[draw.integers(4)](draw)
    return replace(made, noise=_uniform(draw, 0.01, 0.03))


FAMILIES: dict[str, tuple[Callable[[Generator], Machine], Sequence[str]]] = {
    "one queue": (one_queue, ("knee",)),
    "queue behind a delay": (queue_behind_delay, ("knee",)),
    "dies at random": (dies_at_random, ("knee",)),
    "dies behind a controller": (dies_behind_controller, ("knee",)),
    "failing servers": (failing_servers, ("knee",)),
    "rolls over": (rolls_over, ("knee",)),
    "shared noise": (shared_noise, ("knee",)),
    "quiet": (quiet, ("knee",)),
    "odd load": (odd_load, ("knee",)),
    "rising": (rising, ("still rising",)),
    "saturated": (saturated, ("saturated at the first point", "flat")),
    "flat": (flat, ("flat", "saturated at the first point")),
}
"""What makes a machine, and how its curve should be read, by name."""
