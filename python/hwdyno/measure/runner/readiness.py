"""Makes what an experiment reads just before its first reading, in time of the budget that was kept for it."""

from __future__ import annotations

import time
from collections.abc import Callable

from hwdyno.measure.plan import Planned
from hwdyno.measure.runner.allowance import Allowance
from hwdyno.measure.runner.faults import StopError
from hwdyno.model.words import UserError


def make_ready(planned: Planned, allowance: Allowance, says: Callable[[str], None], *, is_first: bool) -> None:
    """Make what the experiment reads, unless it is there; ``is_first`` while nothing was measured.

    Raises ``StopError`` where the machine refused it or the budget has no time for it, ``UserError`` instead where
    nothing was measured, and ``KeyboardInterrupt``.
    """
    making = allowance.plan.making
    if making is None:
        return
    began = time.monotonic()
    try:
        # Some answer is better than none: the first part is made however long it takes.
        why = making.make(planned, None if is_first else allowance.left_s, says)
    except UserError as error:
        if is_first:
            raise
        why = f"{planned.experiment.name}: {error}"
    if why:
        raise StopError(why)
    if allowance.deadline is not None:
        # The deadline is that of the readings.
        allowance.deadline += time.monotonic() - began
