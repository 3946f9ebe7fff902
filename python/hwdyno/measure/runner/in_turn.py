"""Which experiments are read in turn, so that what changes on a machine meanwhile is inside of each interval."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby

from hwdyno.measure.plan import Planned


def blocks(experiments: Sequence[Planned]) -> list[tuple[Planned, ...]]:
    """The experiments in their order, those in a row of one resource together whose kernels keep no state.

    Where a reading leaves something behind for the next, as on a disk, any other order is unfair; where readings grow
    along an axis, the largest would take the others' time.

    The points of a block are read in rounds through all of it. A point's repeats are then as far apart as the block is
    long: were they seconds apart, they would agree with each other on a speed that another run, minutes later, does not
    find again, and their interval would promise more than it keeps.
    """

    def together(planned: Planned) -> str:
        kernel = planned.declaration
        return "" if kernel.stateful or kernel.grows else planned.experiment.resource

    made: list[tuple[Planned, ...]] = []
    for resource, row in groupby(experiments, key=together):
        every = tuple(row)
        made += [every] if resource else [(planned,) for planned in every]
    return made
