"""The typed Machine: a field for every key of the survey, and nothing lost of a survey that has others."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, fields, is_dataclass
from pathlib import Path
from typing import Any

import pytest
from hwdyno.analysis import resources
from hwdyno.analysis.resources import Resource
from hwdyno.measure import engine
from hwdyno.measure.hosts.local import Local
from hwdyno.model.machine import Machine, Number, Settings, survey_from_machine
from hwdyno.report.machine import describe_machine
from hwdyno.system.store import from_json, to_json
from made_run import whole_run
from made_survey import MACHINE

TREES = Path(__file__).parents[1] / "trees"
PATHS = ("/", "/srv/data/x", "/home", "/media/stick", "/tmp", "/data", "/local", "/tank")
# Fields that no recorded tree has a value for: a control group's limits, an SMBIOS table, this process's settings, and
# what libraries state.
ELSEWHERE = {"limits", "modules", "other", "settings", "gpu_drivers", "looked_for", "opencl", "cuda"} | {
    field.name for field in fields(Settings)
}


def list_keys(plain: Any) -> set[str]:
    """Every key of a survey, its ``unknown`` left out, without its path."""
    if isinstance(plain, dict):
        inner = [list_keys(value) for key, value in plain.items() if key != "unknown"]
        return set(plain).union(*inner) if inner else set(plain)
    return set().union(*map(list_keys, plain)) if isinstance(plain, list) else set()


def left_over(machine: Machine) -> dict[str, Any]:
    """What neither a field nor a resource's facts have a type for."""
    typed = {name: resource.facts for name, resource in resources.all_resources().items() if resource.facts}
    parts = {name: json.loads(json.dumps(asdict(machine.part(name, kind)))) for name, kind in typed.items()}
    return {name: value for name, value in machine.other.items() if parts.get(name) != value}


@pytest.mark.parametrize("tree", sorted(path.name for path in TREES.glob("*.tree")))
@pytest.mark.parametrize("path", PATHS)
def test_every_key_of_a_survey_has_a_field_of_its_type(tree: str, path: str) -> None:
    assert left_over(Machine.of_survey(engine.survey(Path(path), TREES / tree))) == {}


def test_every_field_is_survey_key() -> None:
    surveyed = set().union(*(list_keys(engine.survey(Path(p), tree)) for tree in TREES.glob("*.tree") for p in PATHS))
    names = list_keys(survey_from_machine(Machine.of_survey(MACHINE)))
    assert is_dataclass(Machine) and names - surveyed <= ELSEWHERE


def test_this_machine_loses_nothing() -> None:
    assert left_over(Local().survey(Path("/"))) == {}


@dataclass(frozen=True)
class Gadget:
    clock_hz: Number | None = None
    ways: tuple[str, ...] = ()


def test_a_resources_own_part_of_the_survey_has_its_type(monkeypatch: pytest.MonkeyPatch) -> None:
    found = {"clock_hz": 7.5, "ways": ["in", "out"]}
    machine = Machine.of_survey({"hostname": "here", "gadget": found})
    assert left_over(machine) == {"gadget": found}, "no resource declares it"
    made = Resource(name="gadget", title="Gadget", facts=Gadget)
    monkeypatch.setattr(resources, "all_resources", lambda: {"gadget": made})
    assert machine.part("gadget", Gadget) == Gadget(7.5, ("in", "out"))
    assert Machine().part("gadget", Gadget) == Gadget()
    assert left_over(machine) == {}
    assert left_over(Machine.of_survey({"gadget": {"clock_hz": "fast"}})), "another type than the field's"
    assert "in, out" in str(describe_machine(machine))


def test_a_key_that_is_not_known_is_kept_by_its_path() -> None:
    survey = {
        "hostname": 7,
        "cpu": {"model": "X", "smell": "none", "caches": [{"level": 1, "colour": "red"}]},
        "nics": "three",
        "storage": {"disks": [{"name": "sda", "link": {"bits_s": "fast"}}]},
        "board": None,
    }
    machine = Machine.of_survey(survey)
    assert (machine.cpu.model, machine.cpu.caches[0].level, machine.storage.disk.name) == ("X", 1, "sda")
    assert machine.other == {
        "hostname": 7,
        "cpu.smell": "none",
        "cpu.caches.0.colour": "red",
        "nics": "three",
        "storage.disks.0.link.bits_s": "fast",
    }
    assert Machine.of_survey(survey_from_machine(machine)) == machine


def test_a_document_of_schema_1_opens_with_its_machine_first() -> None:
    plain = json.loads(to_json(whole_run()))
    plain |= {"schema": "hwdyno.run/1", "machine": {**MACHINE, "later": {"than": "this"}}}
    del plain["machines"]
    for experiment in plain["experiments"]:
        for point in experiment["points"]:
            del point["hosts"]
    run = from_json(json.dumps(plain))
    assert len(run.machines) == 1 and run.machine.hostname == MACHINE["hostname"]
    assert run.machine.other == {"later": {"than": "this"}}
    assert run.machine.storage == whole_run().machine.storage
    assert from_json(to_json(run)) == run
    bare = from_json(json.dumps({**plain, "machine": {}}))
    assert bare.machines == () and bare.machine == Machine()
