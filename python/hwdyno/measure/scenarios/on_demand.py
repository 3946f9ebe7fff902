"""Makes what experiments read, each part just before its first reading."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Collection
from dataclasses import dataclass, field

from hwdyno.measure.hosts import Host
from hwdyno.measure.plan import WRITE_BYTES_S, Plan, Planned
from hwdyno.measure.scenarios.affordable import explain_left_out, shortest_s, uses
from hwdyno.measure.scenarios.preparation import Interrupted, Preparation, Says
from hwdyno.model.words import UserError


@dataclass
class OnDemand:
    """What a plan's experiments read, made on a host and removed with ``made``."""

    plan: Plan
    host: Host
    made: contextlib.ExitStack
    unmade: list[Preparation]
    refused: dict[Preparation, UserError] = field(default_factory=dict, init=False)
    """What could not be made, with the cause."""
    interrupted: Interrupted | None = field(default=None, init=False)
    """What ended it, by which the removal decides what stays."""
    estimated_s: float = field(default=0.0, init=False)
    took_s: float = field(default=0.0, init=False)

    def unmade_s(self, names: Collection[str]) -> float:
        """Seconds that making what these experiments still lack takes, at the speed of what is made."""
        wanted = [planned for planned in self.plan.experiments if planned.experiment.name in names]
        slowness = max(1.0, self.took_s / self.estimated_s) if self.estimated_s else 1.0
        return slowness * sum(
            preparation.seconds(WRITE_BYTES_S)
            for preparation in self.unmade
            if any(uses(planned, preparation) for planned in wanted)
        )

    def make(self, planned: Planned, left_s: float | None, says: Says) -> str:
        """Make what an experiment reads, unless it is there; why it is left out, or nothing.

        The time of what is unmade is not part of ``left_s``. Raises ``UserError``, and ``Interrupted``.
        """
        for preparation, error in self.refused.items():
            if uses(planned, preparation):
                raise error
        needs = [preparation for preparation in self.unmade if uses(planned, preparation)]
        is_short = left_s is not None and left_s < shortest_s(planned, self.plan)
        if needs and is_short and "runtime" not in self.plan.given:
            return explain_left_out(self.plan, [planned.experiment.name])
        for preparation in needs:
            self._make(preparation, says)
        return ""

    def _make(self, preparation: Preparation, says: Says) -> None:
        began = time.monotonic()
        self.unmade.remove(preparation)
        try:
            self.made.enter_context(preparation.make_available(self.host, says))
        except UserError as error:
            self.refused[preparation] = error
            raise
        except Interrupted as stop:
            self.interrupted = stop
            raise
        self.took_s += time.monotonic() - began
        self.estimated_s += preparation.seconds(WRITE_BYTES_S)


def is_on_demand(preparation: Preparation, plan: Plan) -> bool:
    """Whether a preparation is made just before the first experiment that reads it: there is one, and it takes time."""
    return preparation.seconds(WRITE_BYTES_S) > 0 and any(uses(planned, preparation) for planned in plan.experiments)
