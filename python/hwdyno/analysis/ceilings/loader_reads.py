"""Plain reads beside training: of a file as large as a loader's, or of the very objects that it reads."""

from __future__ import annotations

from collections.abc import Iterator

from hwdyno.analysis.ceilings import object_store
from hwdyno.model.units import format_bytes_s, number_at, plural
from hwdyno.model.words import Ceiling, ExperimentResult, Run

FILES, OBJECTS = "storage.pattern.", "object.pattern."
"""Begin the name of an experiment of plain reads; the workload follows, and ``@`` with the storage's name if any."""


PLAIN_GETS = "plain GETs"
"""The label of the ceiling by plain requests for a data set's objects."""


def find_plain(run: Run, result: ExperimentResult) -> ExperimentResult | None:
    """The plain reads that were measured beside a loader on the same storage; none where there are none."""
    _, at, storage = result.name.partition("@")
    wanted = [f"{kind}{result.fixed.get('workload')}{at}{storage}" for kind in (FILES, OBJECTS)]
    return next((other for other in run.experiments if other.name in wanted and other.points), None)


def of_store(run: Run, result: ExperimentResult) -> tuple[Ceiling, ...]:
    """The ceilings of a loader's path to an object store, and what plain requests to the same store got."""
    return (*object_store.of_path(run, result), *_of_requests(run, result))


def _of_requests(run: Run, result: ExperimentResult) -> Iterator[Ceiling]:
    plain = find_plain(run, result)
    for point in plain.points if plain is not None and plain.name.startswith(OBJECTS) else ():
        count, value = int(number_at(point.parameters, plain.load if plain else "")), point.throughput.value
        if point.validity == "invalid" or not value or not count:
            continue
        formula = f"plain GETs of the same objects, {plural(count, 'request')} in flight = {format_bytes_s(value)}"
        source = "object_requests on the data set's own keys in the same run"
        yield Ceiling(f"{object_store.METRIC}down/{count}", "reference", value, "bytes/s", formula, source, PLAIN_GETS)
