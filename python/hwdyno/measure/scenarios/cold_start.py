"""A model's start alone, from files or an object store: the loaders that are named, by threads and sizes of reads."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hwdyno.measure.models.installed import LOADERS
from hwdyno.measure.scenarios.inference import PARTS, make_scenario
from hwdyno.measure.scenarios.kinds import Kind
from hwdyno.measure.scenarios.model import read_source
from hwdyno.measure.scenarios.request import Option, Request
from hwdyno.measure.scenarios.scenario import Scenario

if TYPE_CHECKING:
    from hwdyno.measure.hosts import Host


def make(request: Request, host: Host) -> Scenario:
    """One experiment for each storage."""
    return make_scenario(request, host, read_source(request), PARTS[:1])


KIND = Kind(
    name="cold_start",
    command="inference",
    make=make,
    title="cold start",
    options=(Option("--cold", f"time to ready by these loaders: {', '.join(LOADERS)}", "LOADERS"),),
    chosen_by="cold",
    kernel="inference_load",
    hidden={"path", "model", "loader"},
    takes_stores=True,
)
