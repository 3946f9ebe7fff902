"""A context's KV cache alone: read back from storage, or computed again."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hwdyno.measure.models.installed import STACKS
from hwdyno.measure.scenarios.inference import PARTS, make_scenario
from hwdyno.measure.scenarios.kinds import Kind
from hwdyno.measure.scenarios.model import read_source
from hwdyno.measure.scenarios.request import Option, Request
from hwdyno.measure.scenarios.scenario import Scenario
from hwdyno.model.words import UserError

if TYPE_CHECKING:
    from hwdyno.measure.hosts import Host


def make(request: Request, host: Host) -> Scenario:
    """One experiment for each storage."""
    source = read_source(request)
    if source.file:
        raise UserError(f"--restore measures a made decoder; {source.file.name} is measured by --cold")
    return make_scenario(request, host, source, PARTS[3:])


KIND = Kind(
    name="kv_restore",
    command="inference",
    make=make,
    title="KV cache of a context",
    options=(Option("--restore", f"restore or recompute in these engines: {', '.join(STACKS)}", "STACKS"),),
    chosen_by="restore",
    kernel="inference_restore",
    hidden={"path", "model", "stack", "context"},
)
