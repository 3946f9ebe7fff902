"""Limits that the user knows: every command that measures takes them, and each resource is bound by its own."""

from __future__ import annotations

from pathlib import Path

import pytest
from hwdyno.analysis.ceilings.limits import known_ceilings
from hwdyno.cli import storage_job
from hwdyno.cli.main import load_subcommand, main, make_parser
from hwdyno.explain.findings import explain
from hwdyno.measure import runner
from hwdyno.measure.hosts.local import Local
from hwdyno.measure.plan import Limits
from hwdyno.measure.scenarios import Request, make_scenario
from hwdyno.measure.scenarios import study as command
from hwdyno.model.words import UserError
from hwdyno.studies import find, observations
from hwdyno.system.store import Store
from simulation.host import SimulatedHost, SimulatedMachine

OPTIONS = ["--ceiling", "rated read 400 MB/s", "--link", "USB 3.1 Gen 1", "--device", "Samsung 990 PRO 2TB"]
GIVEN = Limits(("rated read 400 MB/s",), ("USB 3.1 Gen 1",), ("Samsung 990 PRO 2TB",))
MEASURING = (
    "run",
    "run --only training",
    "storage",
    "storage iodepth",
    "memory",
    "compute",
    "network",
    "training",
    "training --checkpoint llama3-8b",
    "inference --kv-cache llama3.1-8b",
    "inference --vector-search diskann",
    "together",
    "study cloud-vm-suite",
    "study jetson-sequential-read",
    "study kubernetes-ai-storage",
    "study laptop-memory-and-flash",
    "study sata-ssd-queue",
)


@pytest.mark.parametrize("line", MEASURING)
def test_every_command_that_measures_takes_limits(line: str, tmp_path: Path) -> None:
    name, *words = line.split()
    args = make_parser(name).read([*words, "--path", str(tmp_path), *OPTIONS])
    request = load_subcommand(name).request(args)
    assert make_scenario(request, Local()).plan.limits == GIVEN


def test_a_job_file_and_a_test_of_snia_take_limits(tmp_path: Path) -> None:
    (tmp_path / "reads.fio").write_text("[reads]\nsize=1m\nrw=read\n")
    args = make_parser("storage").read(["job", str(tmp_path / "reads.fio"), "--path", str(tmp_path), *OPTIONS])
    made = make_scenario(storage_job.request(args.question[1:], args), Local())
    assert made.plan.limits == GIVEN
    assert main(["storage", "snia", "iops", "--path", str(tmp_path), "--dry-run", *OPTIONS]) == 0


@pytest.mark.parametrize("wrong", [("--link", "string"), ("--device", "none such"), ("--ceiling", "much")])
def test_what_cannot_be_read_is_refused_before_anything_is_made(
    wrong: tuple[str, str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["study", "sata-ssd-queue", "--path", str(tmp_path), *wrong]) == 2
    assert wrong[1] in capsys.readouterr().err and not list(tmp_path.iterdir())


def test_each_resource_has_its_own_bounds() -> None:
    links, devices = ("USB 3.1 Gen 1", "10GbE"), ("Samsung 990 PRO 2TB",)
    of = {name: known_ceilings(name, ("3 TFLOP/s",), links, devices) for name in ("storage", "network", "compute")}
    assert {ceiling.unit for ceiling in of["compute"]} == {"FLOP/s"}
    assert {ceiling.label for ceiling in of["network"]} == {"10 Gbit/s Ethernet"}
    assert "rated" in {ceiling.kind for ceiling in of["storage"]} and not any(
        "Ethernet" in ceiling.label for ceiling in of["storage"]
    )
    assert 500e6 in {ceiling.value for ceiling in of["storage"]}
    with pytest.raises(UserError, match="is not a link"):
        known_ceilings("storage", (), ("a string",))


def test_the_laptops_flash_drive_is_held_against_its_makers_figures_and_its_link(tmp_path: Path) -> None:
    """The published study read 1473 MB/s of a drive of 400 MB/s behind USB: so does a machine with a fast disk."""
    limits = Limits(("rated read 400 MB/s", "rated write 240 MB/s"), ("USB 3.1 Gen 1",))
    host = SimulatedHost(SimulatedMachine())
    request = Request(places=(("", tmp_path),), seed=1, limits=limits, options={"only": "storage"})
    plan = command.make_plan(find("laptop-memory-and-flash"), request, host)
    run = runner.run(plan, host, Store(tmp_path / "home"), "run-1", explain=explain)
    (flash,) = run.experiments
    assert {ceiling.label for ceiling in flash.ceilings} >= {"rated, given", "USB 3.2 Gen 1x1"}
    sentences = " ".join(observations(run))
    assert "no ceiling is exceeded" not in sentences
    assert "measured a cache instead" in sentences
    assert "physical_ceiling" in {found.rule for found in run.findings}
