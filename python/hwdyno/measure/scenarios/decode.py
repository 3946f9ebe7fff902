"""Decoding alone: tokens/s of one sequence, beside the memory bandwidth that bounds it."""

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
    """The engines, and the memory beside them."""
    source = read_source(request)
    if source.file:
        raise UserError(f"--decode measures a made decoder; {source.file.name} is measured by --cold")
    return make_scenario(request, host, source, PARTS[1:3])


KIND = Kind(
    name="decode",
    command="inference",
    make=make,
    title="decoding",
    options=(Option("--decode", f"tokens/s of these engines: {', '.join(STACKS)}", "STACKS"),),
    chosen_by="decode",
    kernel="inference_decode",
    hidden={"path", "model", "stack", "context"},
)
