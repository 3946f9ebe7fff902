"""An object store: requests over HTTP to a bucket."""

from __future__ import annotations

from hwdyno.analysis.ceilings import object_store
from hwdyno.analysis.resources.description import HeadlineFigure, Resource
from hwdyno.model.kernels import OBJECT_REQUESTS
from hwdyno.model.words import Parameters


def _figure(title: str, unit: str, prefer: Parameters, **where: str | int) -> HeadlineFigure:
    kernels = (OBJECT_REQUESTS,)
    return HeadlineFigure(title=title, unit=unit, kernels=kernels, where={**where, "rate": 0.0}, prefer=prefer)


_LARGE: Parameters = {"object_size": 8 << 20, "concurrency": 16}
_SMALL: Parameters = {"object_size": 4096, "concurrency": 16}

RESOURCE = Resource(
    name="object",
    title="Object store",
    rate_word="requests/s",
    figures=(
        _figure("read, {object_size}, {concurrency}", "bytes/s", _LARGE, operation="get"),
        _figure("write, {object_size}, {concurrency}", "bytes/s", _LARGE, operation="put"),
        _figure("read, {object_size}, {concurrency}", "operations/s", _SMALL, operation="get", object_size=4096),
        _figure("list, {concurrency}", "operations/s", _SMALL, operation="list"),
    ),
    never_quoted=("object.plain.",),  # They are what a workload on the store is compared with.
    derived={OBJECT_REQUESTS: object_store.of_path},
    limits=("the store's own throughput", "its limit of requests per second", "the path to it"),
    client="beside",
    two_ended=True,
    by_scenario=True,
    by_default=False,
    steps_down=("a store that sheds load, or a spent burst budget", "the store's own counters"),
    on_faults="Check the store's log, its limits of requests per second, and the path to it",
    workers="client_threads",
    larger={"object_size": "64M"},
    knee="",
    survey_parts=("nics",),
)
