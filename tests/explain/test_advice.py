"""Every command that a finding advises is taken as it is pasted, and measures the very point of the finding."""

from __future__ import annotations

import itertools
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import Any

import pytest
import test_rules_apply as rules_apply
from advised import capture_outcome, commands_in, not_taken, parser_of, refused, shape, split_words
from here import IS_WHOLE, sample
from hwdyno.analysis.estimates import interval
from hwdyno.cli.main import main, make_parser
from hwdyno.cli.options import make_request
from hwdyno.explain.findings import explain
from hwdyno.explain.findings.commands import align_blocks
from hwdyno.explain.findings.rule import Case
from hwdyno.measure import engine, experiments
from hwdyno.measure.experiments import Experiment
from hwdyno.measure.hosts.local import Local
from hwdyno.measure.plan import Plan, Planned, build
from hwdyno.measure.runner.declared import kept_declaration
from hwdyno.measure.scenarios import make_scenario
from hwdyno.model.machine import Cpu, Machine
from hwdyno.model.point_details import Fault, Note, Samples
from hwdyno.model.words import ExperimentResult, Latency, Measurement, Parameters, Run, Scalar
from made_experiment import ON_ONE_HOST
from simulated_runs import experiment, make_run
from simulation.host import SimulatedMachine

HOST = Local()
ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
KERNELS = HOST.kernels()


def make_plan(line: str, path: Path) -> Plan | None:
    """The plan that a command makes; none for training, whose data set settles it."""
    name, *words = split_words(line)
    args = parser_of(name).read(words)
    args.path = path
    if name not in {"storage", "memory", "compute", "network"}:
        return None
    return make_scenario(make_request(args, name), Local()).plan


def taken(line: str, path: Path) -> Plan | None:
    try:
        return make_plan(line, path)
    except (SystemExit, Exception) as error:
        pytest.fail(f"{line}: {error!r}")


def planned(definition: Experiment, profile: str) -> Planned:
    (found,) = build([(definition, {})], HOST, profile=profile).experiments
    return found


def make_result(
    found: Planned, points: tuple[Measurement, ...], given: frozenset[str] = frozenset()
) -> ExperimentResult:
    """An experiment's result as the runner leaves it: every default that all points share is in ``fixed``."""
    defaults = {axis.name: axis.default for axis in KERNELS[found.experiment.kernel].axes}
    swept = {name for point in found.points for name in point}
    shared = {n: v for n, v in {**defaults, **found.fixed}.items() if n not in swept and not isinstance(v, list)}
    if "main_memory" in found.experiment.needs and "working_set" not in swept | set(found.fixed):
        shared["working_set"] = 512 << 20
    if "model" in shared:
        shared["model"] = choose_model(found.experiment.kernel)
    definition, declaration = found.experiment, kept_declaration(found, given, shared)
    return ExperimentResult(
        definition.name, definition.resource, definition.asks, found.load, definition.kernel, points, definition.metric,
        fixed=shared, declaration=declaration,
    )  # fmt: skip


def choose_model(kernel: str) -> str:
    """A model that this kernel knows by name."""
    if kernel in {f"inference_{way}" for way in ("load", "stream", "decode", "restore", "in_process")}:
        return "246m"
    if kernel == "inference_images":
        return "resnet50"
    return "llama3.1-8b" if "kv" in kernel else "llama3-8b"


def bare(parameters: Parameters, value: float = 1e9, unit: str = "bytes/s", **more: Any) -> Measurement:
    made = Measurement(
        parameters=parameters, throughput=interval([value] * 3, unit), rate=None, latency_ns=None, streams=(),
        samples=None, concurrency=None, cpu_user_s=0.1, cpu_system_s=0.1, elapsed_s=3.0, operations=1000, bytes=0,
        repeats=3,
    )  # fmt: skip
    return replace(made, **more)


@pytest.mark.parametrize("definition", ON_ONE_HOST, ids=lambda definition: definition.name)
def test_a_point_is_repeated_by_its_own_kernel_and_parameters(definition: Experiment, tmp_path: Path) -> None:
    for profile in ("quick", "standard"):
        found = planned(definition, profile)
        result = make_result(found, tuple(bare(point) for point in found.points))
        run = Run("r", "", None, (), "quick", "hwdyno run", (result,))
        step = max(1, len(found.points) // 40)
        for at in range(0, len(found.points), step):
            line = Case(run, result, at).command()
            plan = taken(line, tmp_path)
            if plan is None:
                continue
            (again,) = plan.experiments
            assert again.experiment.kernel == definition.kernel, line
            (point,) = again.points
            whole = {**again.fixed, **point}
            for name, value in found.points[at].items():
                assert whole.get(name) == value, f"{line}: {name} is {whole.get(name)}, not {value}"


def test_a_sweep_of_ones_own_is_repeated_with_what_was_fixed(tmp_path: Path) -> None:
    """What was given once for all points is no default, so a command that leaves it out measures something else."""
    for given in (
        "hwdyno memory --working-set 1M,4M --pages 4k --locality random --stride 4096",
        "hwdyno memory --block 256 --pattern random --delay 0,100 --threads 1 --working-set 64M",
        "hwdyno storage --rw randrw:70 --numjobs 1,2 --bs 16k --ioengine psync --direct 0",
        "hwdyno compute --n 500,1000 --operation gemm --threads 1",
        "hwdyno network --message 1024 --in-flight 1,2 --congestion reno --exchange echo",
    ):
        plan = taken(given, tmp_path)
        assert plan is not None
        (found,) = plan.experiments
        result = make_result(found, tuple(bare(point) for point in found.points), plan.given)
        line = Case(Run("r", "", None, (), "quick", given, (result,)), result, 1).command()
        again = taken(line, tmp_path)
        assert again is not None
        before = {**found.fixed, **found.points[1]}
        after = {**again.experiments[0].fixed, **again.experiments[0].points[0]}
        assert again.experiments[0].experiment.kernel == found.experiment.kernel, line
        unlike = {n: (v, after.get(n)) for n, v in before.items() if after.get(n) != v and n not in {"size"}}
        assert not unlike, f"{line}: {unlike}"


def troubled(found: Planned) -> ExperimentResult:
    """Points that break what they can, so that all rules on any resource have findings."""
    unit = "operations/s" if found.experiment.metric == "latency" else "bytes/s"
    points = []
    for at, parameters in enumerate(found.points[:6]):
        course = (1e9,) * 12 + (3e8,) * 12 if at % 2 else tuple(1e9 * (1 + 0.1 * step) for step in range(24))
        points.append(
            bare(
                parameters,
                1e9 / (at + 1),
                unit,
                rate=interval([1e6, 1.1e6, 0.2e6], "operations/s"),
                latency_ns=Latency(1e6, 1e6, 2e6, 3e6, None, 1e5, 9e6, 1000),
                samples=Samples(1e8, 1e9, 2e9, 0.1, 0.5, course),
                repeats=1,
                cpu_user_s=2.9,
                throughput=interval([1e9, 1.4e9, 0.5e9], unit),
                repeat_values=(1e9, 1.4e9, 5e8, 1.1e9, 9e9),
                faults=(Fault("read", 5, "it failed", 3),),
                notes=(Note("direct_refused", "O_DIRECT was refused"),),
                conditions={"steal": 0.2, "clock_hz_before": 3e9, "clock_hz": 2e9, "swap_in_bytes": 1e9},
            )
        )
    return make_result(found, tuple(points))


@pytest.mark.parametrize("definition", ON_ONE_HOST, ids=lambda definition: definition.name)
def test_every_advised_command_is_taken_as_it_is_pasted(definition: Experiment, tmp_path: Path) -> None:
    run = Run(
        "r", "", None, (Machine(cpu=Cpu(threads=2)),), "quick", "hwdyno run", (troubled(planned(definition, "quick")),)
    )
    count = 0
    for found in explain(run).findings:
        for line in commands_in(found.advice):
            taken(line, tmp_path)
            count += 1
        if definition.resource not in {"storage", "training"}:  # What training waits for is a storage, too.
            for words in ("IOPS", "drive", "smartctl", "filesystem", "numjobs"):
                text = f"{found.says} {found.advice}"
                assert words not in text or found.rule == "direct_refused", f"{found.rule}: {text}"
    assert count >= 2


def test_advice_repeats_no_option_that_was_just_refused() -> None:
    """Where the filesystem refuses direct I/O, or the system io_uring, it does so again."""
    point = bare({"rw": "randread", "bs": 4096, "iodepth": 4, "direct": True, "ioengine": "io_uring"}, 1e8, "bytes/s")
    refused = tuple(Note(f"{option}_refused", "it was") for option in ("direct", "io_uring"))

    def command(notes: tuple[Note, ...], **changes: Scalar) -> str:
        found = replace(planned(experiments.find("storage.iodepth")[0], "quick"), fixed={"path": "/data"})
        result = make_result(found, (replace(point, notes=notes),))
        run = Run("r", "", None, (), "quick", "hwdyno storage --path /data", (result,))
        return Case(run, result, 0).command(**changes)

    assert "--direct 1" in command(()) and "--ioengine io_uring" in command(()) and "--path /data" in command(())
    again = command(refused, iodepth=8)
    assert "--direct 0" in again and "--ioengine libaio" in again and "--path /data" in again
    past_the_cache = command(refused, direct=True)
    assert "--direct 1" in past_the_cache and "--path DIR" in past_the_cache


AXES: dict[str, list[Parameters]] = {
    "iodepth": [{"rw": "randread", "bs": 4096, "iodepth": 2**n, "numjobs": 1} for n in range(9)],
    "bs": [{"rw": rw, "bs": 4096 << n, "iodepth": 8, "numjobs": 1} for rw in ("read", "randwrite") for n in range(6)],
    "numjobs": [
        {"rw": "randrw", "rwmixread": 70, "bs": 4096, "iodepth": 8, "numjobs": 2**n, "direct": True} for n in range(4)
    ],
}
RUNS = [(axis, seed, noise) for axis in AXES for seed in range(sample(2, 4)) for noise in (0.005, 0.4)]


def test_every_command_advised_of_simulated_disks_is_taken(tmp_path: Path) -> None:
    count = 0
    for axis, seed, noise in RUNS:
        machine = SimulatedMachine.random(seed, noise=noise)
        run = explain(make_run(machine, experiment(machine, axis, AXES[axis], repeats=3)))
        for found in run.findings:
            for line in commands_in(found.advice):
                taken(line, tmp_path)
                count += 1
    assert count > 20


# --- as printed: by the real command line, with the place and the settings of the Run

PLACE = "/data"
OF_STORAGE = (
    "hwdyno run --path /data --budget 5m --ceiling 'rated read 400 MB/s' --out there",
    "hwdyno storage --rw randread --path /data --profile quick --seed 7 --no-page",
    "hwdyno study sata-ssd-queue --path /data --only storage",
    "hwdyno storage snia iops --path /data --budget 1m",
    "hwdyno storage job reads.fio --path /data --quiet",
)
OF_TRAINING = (
    "hwdyno run --only training --path /data",
    "hwdyno training --workload unet3d --accelerator h100 --accelerators 1,2 --samples 42,112 --path /data --keep",
    "hwdyno study kubernetes-ai-storage --path local=/data --no-inference",
)
MIN_RULES = 55
"""Minimum number of rules that have findings here. All others have findings in other tests, and ``plain_findings`` has
each command parsed."""


TURN = itertools.count()


def of_commands(run: Run) -> Iterator[Run]:
    """The Run as each command that measures its points would have stored it; in a sample one of them, in turn."""
    resources = {result.resource for result in run.experiments}
    if "training" in resources:
        folder = {"path": f"{PLACE}/hwdyno-unet3d-42", "files": 42, "samples_per_file": 1}
        lines, fixed = OF_TRAINING, folder
    elif "storage" in resources:
        lines, fixed = OF_STORAGE, {"path": PLACE, "size": 1 << 30}
    else:
        lines, fixed = ("hwdyno run --path /data",), {}
    for line in lines if IS_WHOLE else [lines[next(TURN) % len(lines)]]:
        yield replace(
            run,
            command=line,
            experiments=tuple(replace(result, fixed={**result.fixed, **fixed}) for result in run.experiments),
        )


def rules_and_commands(runs: Iterable[Run]) -> tuple[set[str], dict[str, tuple[str, str]]]:
    """The rules that spoke, and their commands: one of each shape, with its rule and the command of its Run."""
    rules: set[str] = set()
    found: dict[str, tuple[str, str, str]] = {}
    for run in runs:
        for finding in explain(run).findings:
            rules.add(finding.rule)
            for line in commands_in(finding.advice):
                found.setdefault(re.sub(r"\d+", "0", line), (line, finding.rule, run.command))
    return rules, {line: (rule, command) for line, rule, command in found.values()}


def everything() -> Iterator[Run]:
    """Runs in which everything goes wrong that a machine or a kernel may report."""
    seen: Counter[tuple[str, str]] = Counter()
    for run in rules_apply.runs():
        yield from of_commands(run)
        for result in run.experiments:
            name = (result.kernel, result.resource)
            for at in range(min(len(result.points), sample(1, 2) - seen[name])):
                seen[name] += 1
                for other, _ in rules_apply.planted(run, result, at):
                    yield from of_commands(first_points(other))
        if result.resource == "storage":
            yield from of_commands(in_small_blocks(run))
    for definition in ON_ONE_HOST:
        yield Run(
            "r",
            "",
            None,
            (Machine(cpu=Cpu(threads=2)),),
            "quick",
            "hwdyno run",
            (troubled(planned(definition, "quick")),),
        )


def first_points(run: Run) -> Run:
    """The first points of each experiment, which hold what is planted: what follows costs time and advises the same."""
    return (
        run
        if IS_WHOLE
        else replace(run, experiments=tuple(replace(result, points=result.points[:8]) for result in run.experiments))
    )


def in_small_blocks(run: Run) -> Run:
    """Buffered blocks that direct I/O cannot move."""
    points = tuple(replace(p, parameters={**p.parameters, "bs": 8}) for p in run.experiments[0].points)
    (first,) = (
        replace(result, points=points, fixed={**result.fixed, "direct": False}) for result in run.experiments[:1]
    )
    return replace(run, experiments=(first,))


def test_a_curve_of_blocks_below_a_sector_is_advised_in_whole_pages() -> None:
    assert align_blocks({"bs": "8,512,6000,8k", "direct": "1"}) == {"bs": "4096,512,8192,8k", "direct": "1"}
    assert align_blocks({"bs": "8,64", "direct": True}) == {"bs": 4096, "direct": True}
    assert align_blocks({"bs": "8,8k", "direct": "0"}) == {"bs": "8,8k", "direct": "0"}
    whole = [align_blocks({"bs": block, "direct": True})["bs"] for block in (100, 512, "100..4k", "4k,8k", "100,200")]
    assert whole == [4096, 512, "100..4k", "4k,8k", 4096]


@pytest.mark.machine
def test_what_every_rule_advises_is_taken_by_the_command_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HWDYNO_HOME", str(tmp_path / "home"))
    (tmp_path / "reads.fio").write_text("[global]\nsize=1m\nrw=read\n[reads]\n")
    rules, found = rules_and_commands(everything())
    # A survey watches the machine for half a second: one serves every dry run.
    monkeypatch.setattr(engine, "survey", lru_cache(maxsize=None)(engine.survey))
    # One of each rule and set of options is performed; values alone are the parser's matter.
    performed = {(rule, *shape(line)): line for line, (rule, _) in found.items()}
    performed = dict(list(performed.items())[:: sample(12, 1)])
    whys = {line: refused(line) or (line in performed.values() and not_taken(line, tmp_path)) for line in found}
    assert not {line: (found[line], why) for line, why in whys.items() if why}
    assert len(rules) >= MIN_RULES
    for line, (rule, command) in found.items():
        if command != "hwdyno run" and split_words(line)[0] in {"storage", "training"}:
            # Where direct I/O was refused, it needs another place.
            assert PLACE in line or "--path DIR" in line, f"{rule} of {command}: {line}"


@pytest.mark.parametrize("name", ["README.md", "CONTRIBUTING.md", *sorted(p.name for p in DOCS.glob("*.md"))])
def test_every_command_of_page_is_taken(name: str) -> None:
    path = ROOT / name if (ROOT / name).exists() else DOCS / name
    wrong = {line: why for line in commands_of_page(path) if (why := refused(line))}
    assert not wrong


def commands_of_page(path: Path) -> Iterator[str]:
    """The commands of a page: its code, and the text between backticks."""
    for line in path.read_text().replace("\\\n", " ").splitlines():
        yield from (
            command for command in commands_in(line) if "…" not in command and not re.search(r"[\[<|]", command)
        )


@pytest.mark.parametrize(
    ("words", "remedy"),
    [
        (["storage", "--path", "a", "--path", "b"], "--path is given twice; give it once"),
        (["storage", "--bs", "4k", "--bs=8k"], "--bs is given twice; list its values once: --bs 4k,8k"),
        (["memory", "--working-set", "1M", "--working_set", "2M"], "--working-set is given twice"),
        (["run", "--quiet", "--quiet"], "--quiet is given twice; give it once"),
    ],
)
def test_an_option_given_twice_is_refused_in_one_line(words: list[str], remedy: str) -> None:
    status, error = capture_outcome(lambda: main([*words, "--dry-run"]))
    assert status == 2 and remedy in error and error.count("\n") == 1


def test_list_may_be_given_in_parts() -> None:
    assert make_parser("training").read(["--path", "a", "--path", "b"]).path == ["a", "b"]
    assert len(make_parser("run").read(["--ceiling", "rated 1 GB/s", "--ceiling", "rated read 2 GB/s"]).ceiling) == 2
