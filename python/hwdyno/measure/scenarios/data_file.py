"""The data file or raw device that storage points share, which the runner prepares, and their journals."""

from __future__ import annotations

from pathlib import Path

from hwdyno.measure.plan import Plan, every
from hwdyno.measure.scenarios.preparation import Preparation
from hwdyno.measure.workspace import check_place
from hwdyno.model.units import format_bytes

# The layout of crates/engine/src/storage/journal.rs: a header, some words a job, and two words a block.
_WORD_BYTES, _HEADER_WORDS, _JOB_WORDS, _BLOCK_WORDS = 8, 1024, 8, 2


def list_preparations(plan: Plan) -> tuple[Preparation, ...]:
    """What the runner writes before the points of a plan; raises ``UserError`` for a place that cannot be measured."""
    if not plan.needs_data_file:
        return ()
    place = check_place(plan.path, writes=plan.writes, destroy=plan.destroy, serial=plan.serial)
    if place.device_bytes is None:
        description = f"data file: in {plan.path}, removed afterwards"
        return (Preparation(description=description, where=plan.path, bytes=plan.data_bytes), *_journals(plan))
    size = min(place.device_bytes, plan.data_bytes)
    fate = "is overwritten: all its data is lost" if plan.writes else "is only read"
    description = f"raw device: {format_bytes(size)} of {plan.path}, which {fate}"
    return (Preparation(description=description, where=plan.path, bytes=size if plan.writes else 0), *_journals(plan))


def _journals(plan: Plan) -> tuple[Preparation, ...]:
    """The journal of acknowledged writes, read after a crash; of points that share one, the largest."""
    sizes: dict[Path, int] = {}
    for parameters in (parameters for planned in plan.experiments for parameters in every(planned)):
        if name := parameters.get("journal"):
            path = Path(str(name)).absolute()
            jobs = int(parameters.get("numjobs") or 1)
            blocks = int(parameters.get("size") or 0) // int(parameters.get("bs") or 4096)
            words = _HEADER_WORDS + _JOB_WORDS * jobs + _BLOCK_WORDS * blocks
            sizes[path] = max(sizes.get(path, 0), words * _WORD_BYTES)
    return tuple(
        Preparation(description=f"journal: {path}, kept", where=path, bytes=size) for path, size in sizes.items()
    )
