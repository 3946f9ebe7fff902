from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hwdyno.measure import experiments, plan
from hwdyno.measure.dry_run import listing
from hwdyno.measure.hosts.local import Local
from hwdyno.measure.scenarios.entry import is_swept, swept_by
from hwdyno.measure.topology import Topology
from hwdyno.model.words import UserError
from simulation.host import SimulatedHost

HOST = SimulatedHost()
KERNELS = HOST.kernels()


def built(name: str = "storage.iodepth", given: dict[str, Any] | None = None, **how: Any) -> plan.Plan:
    chosen = [
        (experiment, given or {})
        for experiment in experiments.find(name)
        if experiment.kernel in KERNELS and experiment.fits(Topology(64))
    ]
    return plan.build(chosen, HOST, **how)


def test_a_command_sweeps_the_kernels_of_its_experiments(monkeypatch: pytest.MonkeyPatch) -> None:
    assert all(map(is_swept, ("storage", "memory", "compute", "gpu", "network")))
    assert not any(map(is_swept, ("training", "inference", "together", "run")))
    before = swept_by("memory")
    assert swept_by("network").kernels == ("network_throughput", "network_latency", "network_ping")
    made = replace(experiments.find("memory.grid")[0], name="memory.made", kernel="memory_made")
    known = (*experiments.all(), made)
    monkeypatch.setattr(experiments, "all", lambda: known)
    assert swept_by("memory") == replace(before, kernels=(*before.kernels, "memory_made"))


def test_matrices_span_the_existing_nodes(tmp_path: Path) -> None:
    nodes = tmp_path / "sys/devices/system/node"
    nodes.mkdir(parents=True)
    (nodes / "has_cpu").write_text("0-1,4\n")
    (nodes / "has_memory").write_text("0-2\n")
    numa, none = Local(tmp_path).topology(), Local(tmp_path / "none").topology()
    assert (numa.cpu_nodes, numa.memory_nodes) == ((0, 1, 4), (0, 1, 2))
    assert (none.cpu_nodes, none.memory_nodes) == ((0,), (0,)), "a system without NUMA is one node"
    for site in (numa, none, Local().topology()):
        for name in ("memory.latency_matrix", "memory.bandwidth_matrix"):
            axes = experiments.find(name)[0].sweep.at(site).axes
            assert (axes["cpu_node"], axes["node"]) == (site.cpu_nodes, site.memory_nodes)


def test_catalogue_is_found_by_its_folder() -> None:
    names = [experiment.name for experiment in experiments.all()]
    assert {"storage.grid", "storage.iodepth", "storage.blocksize", "storage.mix", "storage.jobs"} <= set(names)
    assert len(set(names)) == len(names)
    for experiment in experiments.all():
        assert 0 < len(experiment.asks) <= 60 and experiment.asks[0].isupper() and experiment.asks[-1] not in ".?", (
            experiment.asks
        )
        assert experiment.load in experiment.sweep.axes
        assert experiment.quick is None or set(experiment.quick.axes) == set(experiment.sweep.axes)


def test_grid_is_eight_standard_numbers() -> None:
    points = built("storage.grid").experiments[0].points
    assert [(p["rw"], p["bs"], p["iodepth"]) for p in points] == [
        ("read", 1 << 20, 8),
        ("read", 1 << 20, 1),
        ("write", 1 << 20, 8),
        ("write", 1 << 20, 1),
        ("randread", 4096, 32),
        ("randread", 4096, 1),
        ("randwrite", 4096, 32),
        ("randwrite", 4096, 1),
    ]


def test_given_axes_replace_those_of_the_experiment_and_one_value_is_shared() -> None:
    made = built(given={"iodepth": "2,4", "bs": "16k", "size": "1G", "offset": [0, 4096]}).experiments[0]
    assert [(p["iodepth"], p["offset"]) for p in made.points] == [(2, 0), (2, 4096), (4, 0), (4, 4096)]
    assert all(p["bs"] == 16384 for p in made.points)
    assert made.fixed["size"] == 1 << 30
    assert made.load == "iodepth"


def test_the_load_is_the_axis_with_most_values_unless_named() -> None:
    given = {"iodepth": "2,4", "bs": "4k..1M", "rw": "randread"}
    assert built(given=given).experiments[0].load == "bs"
    assert built(given=given, load="iodepth").experiments[0].load == "iodepth"
    with pytest.raises(UserError, match="--load runtime is not an axis"):
        built(given=given, load="runtime")


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"iodepth": "-8"}, "negative"),
        ({"rw": "scribble"}, "use one of: read"),
        ({"depth": "8"}, "no parameter 'depth'"),
        ({"ioengine": "psync", "iodepth": "8"}, "use --numjobs 8"),
        ({"ioengine": "mmap", "iodepth": "1"}, "use --direct 0"),
        ({"bs": "1000"}, "not a multiple of 512"),
        ({"bs": "1M", "numjobs": "64", "size": "16M", "iodepth": "1"}, "use --size 64MiB or more"),
        ({"runtime": "0"}, "--runtime"),
        ({"bs": []}, "at least one value"),
        ({"bs": {"a": 1}}, "must be a value"),
    ],
)
def test_nonsense_is_refused_before_measuring(given: dict[str, Any], says: str) -> None:
    with pytest.raises(UserError, match=says) as refused:
        built(given=given)
    assert "\n" not in str(refused.value)


def test_file_size_grows_with_blocks() -> None:
    made = built(given={"bs": "4G", "iodepth": "4"})
    assert made.data_bytes == 4 << 30


def test_budget_cuts_time_before_repeats() -> None:
    made = built("storage", budget_s=150.0)
    assert plan.timing(made, None).says == ""
    generous = plan.timing(made, 600.0)
    assert (generous.runtime_s, generous.repeats_min) == (1.0, 3)
    tight = plan.timing(made, 40.0)
    assert plan.SHORTEST_S <= tight.runtime_s < 1.0
    assert tight.says
    hopeless = plan.timing(made, 1.0)
    assert (hopeless.runtime_s, hopeless.repeats_min) == (plan.SHORTEST_S, 1)


def test_batches_that_a_loader_reads_ahead_are_in_its_time() -> None:
    """Four workers each read a batch of seven samples of 147 MB before a step can end: 2 s at 2 GB/s."""
    first = built("storage").experiments[0]
    ahead = {"record_bytes": 146.6e6, "batch_size": 7, "read_threads": 4, "prefetch": 1, "accelerators": 1}
    point = {**first.points[0], **ahead}
    longer_s = plan.overhead_s(first, point) - plan.overhead_s(first, first.points[0])
    assert longer_s == pytest.approx(28 * 146.6e6 / plan.WRITE_BYTES_S, rel=1e-3)


def test_given_runtime_is_never_cut() -> None:
    made = built(given={"runtime": "7"}, budget_s=10.0)
    assert plan.reading_s(made.experiments[0], made.experiments[0].points[0], plan.timing(made, 1.0), made.given) > 7


def test_default_run_fits_three_minutes() -> None:
    budget = plan.choose_budget("quick", False)
    assert budget is not None
    made = plan.build(
        [(experiment, given) for experiment, given in plan.select(None, HOST) if experiment.kernel in KERNELS],
        HOST,
        budget_s=budget,
    )
    assert sum(line.takes_s for line in listing(made)) < budget < 180


def test_the_listing_counts_only_what_writes() -> None:
    lines = listing(built("storage.mix"))
    by_rw = {(line.parameters["rw"], line.parameters.get("rwmixread")): line.writes_bytes for line in lines}
    assert by_rw["randread", None] == 0
    assert 0 < by_rw["randrw", 70] < by_rw["randrw", 50] < by_rw["randwrite", None]


def written(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "plan.toml"
    path.write_text(text)
    return path


def test_plan_file_covers_all_options(tmp_path: Path) -> None:
    text = """
        profile = "standard"
        path = "/data"
        peers = true
        seed = 7
        budget = "10m"
        ceilings = ["rated read 400 MB/s"]
        [[experiment]]
        name = "storage.iodepth"
        axes = { iodepth = "1..16", bs = ["4k", 16384] }
        [[experiment]]
        name = "storage.deep"
        kernel = "storage_blocks"
        asks = "By depth"
        load = "iodepth"
        axes = { rw = "randread", iodepth = [1, 2] }
    """
    made = plan.read_toml(written(tmp_path, text), HOST, plan.build)
    assert (made.profile.name, made.path, made.peers, made.seed, made.budget_s) == (
        "standard",
        Path("/data"),
        True,
        7,
        600.0,
    )
    assert made.limits == plan.Limits(("rated read 400 MB/s",))
    assert [len(planned.points) for planned in made.experiments] == [10, 2]
    assert made.experiments[1].experiment.asks == "By depth"
    assert made.experiments[1].fixed["direct"] is True


def test_a_plan_file_with_a_former_kernel_name_means_the_kernel_of_today(tmp_path: Path) -> None:
    text = """
        [[experiment]]
        name = "inference.users"
        kernel = "training_kv_cache"
        load = "users"
        axes = { users = [1, 2] }
    """
    with pytest.raises(UserError, match="needs the kernel inference_kv_cache, which this build lacks"):
        plan.read_toml(written(tmp_path, text), HOST, plan.build)


def test_options_beside_a_plan_file_win(tmp_path: Path) -> None:
    path = written(tmp_path, 'profile = "standard"\nseed = 7\nonly = ["storage"]\n')
    made = plan.read_toml(path, HOST, plan.build, {"profile": "quick", "seed": None})
    assert (made.profile.name, made.seed) == ("quick", 7)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("profile = ", "not a readable TOML file"),
        ('profil = "quick"', "unknown key 'profil'"),
        ('profile = "hasty"', "no profile is called 'hasty'"),
        ("seed = true", "wrong type"),
        ('seed = "7"', "wrong type"),
        ('only = ["storag"]', "called 'storag'"),
        ('budget = "soon"', "not a time"),
        ("[[experiment]]\n", "needs a name"),
        ('[[experiment]]\nname = "storage.iodepth"\naxes = { iodepth = -1 }', "iodepth"),
        ('[[experiment]]\nname = "storage.iodepth"\naxes = { rw = "x" }', "use one of"),
        ('[[experiment]]\nname = "storage.iodepth"\naxes = 1', "wrong type"),
        ('[[experiment]]\nname = "a.b"\nkernel = "storage_blocks"', "also needs load"),
        ('[[experiment]]\nname = "a.b"\nkernel = "warp"\nload = "bs"\naxes = { bs = 1 }', "which this build lacks"),
        ('[[experiment]]\nname = "storage.mix"\n[[experiment]]\nname = "storage.mix"', "named twice"),
        ('only = ["storage"]\n[[experiment]]\nname = "storage.mix"', "not both"),
        ("experiment = [1]", "must be a table"),
    ],
)
def test_what_is_wrong_in_a_plan_file_is_one_line_that_names_it(tmp_path: Path, text: str, says: str) -> None:
    path = written(tmp_path, text)
    with pytest.raises(UserError, match=says) as refused:
        plan.read_toml(path, HOST, plan.build)
    assert "\n" not in str(refused.value)


def test_missing_or_binary_plan_file(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="does not exist"):
        plan.read_toml(tmp_path / "none.toml", HOST, plan.build)
    binary = tmp_path / "binary.toml"
    binary.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(UserError, match="is not readable"):
        plan.read_toml(binary, HOST, plan.build)
