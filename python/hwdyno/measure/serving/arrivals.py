"""When the requests of an open loop are due: at random, in bursts, or evenly, with a stated rate."""

from __future__ import annotations

import random
from collections.abc import Iterator


def gaps(process: str, rate: float, burstiness: float, numbers: random.Random) -> Iterator[float]:
    """Seconds from one request to the next, without end; their mean is ``1 / rate``.

    ``gamma`` has gaps of a gamma distribution with shape ``burstiness``, whose coefficient of variation is
    ``burstiness ** -0.5``: below 1 requests come in bursts, 1 is Poisson, and more is more even. They are not
    stretched to a whole number of seconds afterwards, which would take variance out of them.
    """
    mean = 1 / rate
    while True:
        if process == "constant":
            yield mean
        elif process == "gamma":
            yield numbers.gammavariate(burstiness, mean / burstiness)
        else:
            yield numbers.expovariate(rate)


def due_times(process: str, rate: float, burstiness: float, numbers: random.Random) -> Iterator[float]:
    """Seconds from the start at which requests are due; the first one after one gap."""
    due = 0.0
    for gap in gaps(process, rate, burstiness, numbers):
        due += gap
        yield due
