"""A results folder of mlpstorage is read whole, its rules are checked by number, and what is not read is counted."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import made_mlpstorage as made
import pytest
from hwdyno import formats
from hwdyno.cli import audit
from hwdyno.cli.main import main
from hwdyno.explain.findings import explain
from hwdyno.formats import result_folder
from hwdyno.formats.mlpstorage_runs import find_leaves, read_documents
from hwdyno.model.words import Run, UserError
from hwdyno.system.store import from_json, to_json
from made_mlpstorage import GIB, MIB, RECORD, STARTS, TREE, changed, training_summary, write
from read_format import read_run

Tree = Callable[..., Path]
RUN = f"{TREE}/training/unet3d/run"


def read(folder: Path) -> Run:
    return explain(formats.read_folder(folder))


def faults(run: Run) -> list[str]:
    return [fault.says for fault in audit.list_faults(run)]


def notes(run: Run, code: str) -> list[str]:
    return [note.says for note in run.notes if note.code == code]


TREES: tuple[Tree, ...] = (
    made.training_tree, made.checkpoint_tree, made.vector_tree, made.native_vector_tree, made.kv_tree,
    made.tree_of_1_0,
)  # fmt: skip


@pytest.mark.parametrize("tree", TREES, ids=lambda tree: tree.__name__)
def test_a_folder_that_keeps_every_rule_has_no_fault(tree: Tree, tmp_path: Path) -> None:
    run = read(tree(tmp_path))
    assert faults(run) == []
    assert from_json(to_json(run).encode()) == run
    assert ["mlpstorage alone" in says for says in notes(run, "submission")] == [True]


def test_each_training_run_is_a_point_with_its_own_figures(tmp_path: Path) -> None:
    (result,) = read(made.training_tree(tmp_path)).experiments
    assert [point.parameters["run"] for point in result.points] == STARTS
    warm_up, point = result.points[:2]
    assert point.parameters == {"run": STARTS[1], "hosts": 2, "accelerators": 4}
    assert point.details["au_dlio"] == pytest.approx(0.935) and warm_up.details["au_dlio"] == pytest.approx(0.4)
    assert point.rate is not None and point.rate.value == pytest.approx(160, rel=0.001)
    # The file's "MB" are MiB.
    printed = training_summary()["metric"]["train_io_mean_MB_per_second"]
    assert point.throughput.value == pytest.approx(printed * MIB) == pytest.approx(point.rate.value * RECORD)
    facts = point.details["mlperf"]
    assert facts["edition"] == "3.0" and facts["division"] == "closed" and facts["system"] == "sys-1"
    assert facts["memory_bytes"] == 376 * GIB and facts["run_folders"] == 6


def test_checkpoints_vectors_and_kv_cache_are_points(tmp_path: Path) -> None:
    for tree in (made.checkpoint_tree, made.vector_tree, made.kv_tree):
        tree(tmp_path)
    by_title = {result.asks.partition(":")[0]: result for result in read(tmp_path).experiments}
    saved, vectors, kv = (by_title[title] for title in ("Checkpoints", "Vector search", "KV cache"))
    assert [point.parameters["operation"] for point in saved.points] == ["save checkpoint", "load checkpoint"]
    assert saved.points[0].throughput.value == pytest.approx(12.5 * GIB)
    point = vectors.points[0]
    assert len(vectors.points) == 5 and point.throughput.value == 1250.5 and point.throughput.unit == "operations/s"
    assert point.latency_ns is not None and point.latency_ns.p99 == pytest.approx(25.4e6)
    assert point.details["recall"] == 0.982
    assert [(p.parameters["option"], p.parameters["operation"]) for p in kv.points[:2]] == [
        ("1", "read"),
        ("1", "write"),
    ]
    assert kv.points[0].throughput.value == pytest.approx(42 * GIB) and kv.points[0].details["device_p95_ms"] == 20.1
    assert kv.points[1].details["device_p95_ms"] == 4.0 and kv.points[0].parameters["ranks"] == 2
    assert [point.details.get("p95_ms") for point in kv.points[:2]] == [2168.0, None]
    assert kv.points[0].details["tokens_s"] == 10_900 and kv.points[0].details["storage_tokens_s"] == 109


PLANTED: dict[str, tuple[tuple[Tree, dict[str, Any], str, str], ...]] = {
    "mlperf_training": (
    (made.training_tree, {"summary": {"metric": training_summary(au=87.1)["metric"]}},
     "3.3.2", "below 90% in 5 of 5 measured runs, the least 87.1%"),
    (made.training_tree, {"summary": {"num_files_train": 13_000}}, "3.1.2", "has 464 steps of each accelerator"),
    (made.training_tree, {"summary": {"host_memory_GB": [512.0, 512.0]}}, "3.1.2", "1.87 times the hosts' 1 TiB"),
    (made.training_tree, {"runs": 4}, "2.1.17", "4 runs instead of 6 (a warm-up and 5 measured ones)"),
    (made.training_tree, {"summary": {"num_accelerators": 3}},
     "3.3.6", "3 accelerators cannot be equally many on"),
    (made.training_tree, {"summary": {"num_hosts": 1}}, "3.3.4", "counts one host, and the command names 2"),
    (made.training_tree, {"metadata": {"args/results_dir": "/data/"}}, "3.4.1", "data and results are in one folder"),
    (made.training_tree, {"summary": {"num_files_train": 14_100}}, "3.2.1", "and the runs use 2.07 TB"),
    (made.training_tree, {"summary": {"num_files_train": 13_900}}, "3.3.1", "fewer than the 14,000 that datasize"),
    (made.training_tree, {"separation": {"same_filesystem": True}}, "3.4.2", "are on one filesystem in 6 runs"),
    (made.training_tree, {"metadata": {"model": "resnet50"}}, "2.1.11", "resnet50 is no workload of this edition"),
    (made.tree_of_1_0, {"runs": 4}, "Submission_guidelines.md 7,", "4 runs instead of 5"),
    ),
    "mlperf_division": (
    (made.training_tree, {"metadata": {"override_parameters": {"reader.data_loader": "dali"}}},
     "3.6.2", "reader.data_loader was changed, which CLOSED does not allow"),
    (made.tree_of_1_0, {"overrides": "++workload.train.computation_time=1"},
     "Submission_guidelines.md 6,", "train.computation_time was changed"),
    (made.checkpoint_tree, {"metadata": {"override_parameters": {"checkpoint.fsync": "False"}}},
     "4.6.3", "checkpoint.fsync was changed"),
    ),
    "mlperf_checkpoints": (
    (made.checkpoint_tree, {"metadata": {"args/num_checkpoints_write": 5, "args/num_checkpoints_read": 0}},
     "4.7.1", "written and read are 10 and 0"),
    (made.checkpoint_tree, {"metadata": {"parameters/checkpoint/fsync": False}}, "4.3.2", "fsync is off"),
    (made.checkpoint_tree, {"metadata": {"invocation_start_time": "2026-07-02T10:21:30"}},
     "4.7.1", "are between writing"),
    (made.checkpoint_tree, {"summary": {"num_accelerators": 16}}, "4.6.1", "requires 8 processes, and 16 ran"),
    (made.checkpoint_tree, {"summary": {"num_hosts": 4}}, "4.6.2", "8 accelerators on 4 hosts"),
    (made.checkpoint_tree, {"metadata": {"model": "llama3-13b"}}, "4.3.3", "llama3-13b is none of its models"),
    (made.checkpoint_tree,
     {"summary": {"metric/checkpoint_size_GB": 5000.0}, "metadata": {"accelerator": "b200"}}, "4.3.4",
     "does not fit into"),
    (made.checkpoint_tree, {"separation": {"same_filesystem": True}}, "4.4.2", "are on one filesystem in 2 runs"),
    (made.checkpoint_tree, {"metadata": {"parameters/checkpoint/mode": "subset", "model": "llama3-70b"}},
     "4.3.5", "a subset is defined for llama3-8b"),
    ),
    "mlperf_vectors": (
    (made.vector_tree, {"summary": {"recall": {"mean_recall": 0.0}}}, "5.3.2", "has a recall of 0"),
    (made.vector_tree, {"summary": {"recall": None}}, "5.3.2", "states no recall"),
    (made.vector_tree, {"summary": {"p999_latency_ms": None}}, "5.3.4", "p999_latency_ms is missing in 5 of 5 runs"),
    (made.vector_tree, {"verdict": {"flat_setup/coverage": 0.5}}, "5.3.5", "cover 50% of the vectors"),
    (made.vector_tree, {"verdict": {"flat_setup/ok": False}}, "5.3.5", "cover 0% of the vectors"),
    (made.vector_tree, {"summary": {"dimension": 768}}, "5.1.2", "1536 dimensions were loaded, and queries have 768"),
    (made.vector_tree, {"summary": {"num_vectors": 2_000_000}}, "5.2.1", "1.00 M of 2.00 M vectors were loaded"),
    (made.vector_tree, {"summary": {"database": "pgvector"}}, "5.6.2", "requires Milvus, and this is pgvector"),
    (made.native_vector_tree, {"metadata": {"args/vector_dim": 768}}, "5.1.2", "queries have 768"),
    (made.native_vector_tree, {"verdict": {"flat_setup/total_vectors": 9_000}}, "5.2.1", "9.00 k of 1.00 M vectors"),
    (made.vector_tree, {"summary": {"index_type": "IVF_FLAT"}}, "5.6.3", "this is IVF_FLAT"),
    ),
    "mlperf_kv_cache": (
    (made.kv_tree, {"summary": {"trials_per_option": 1}}, "6.3.2.1", "sets trials to 3, and this has 1"),
    (made.kv_tree, {"metadata": {"args/seed": 7}}, "6.3.2.1", "sets the seed to 42, and this has 7"),
    (made.kv_tree, {"metadata": made.kv_commands("1", " --enable-autoscaling")}, "6.3.2.2", "autoscaling was on"),
    (made.kv_tree, {"metadata": made.kv_commands("2", " --cpu-mem-gb 64")},
     "6.3.1.1", "option 2 has cpu-mem-gb 64 instead of 4"),
    (made.kv_tree, {"summary": {"options/3": None}}, "6.3.1.1", "option 3 has no result"),
    (made.kv_tree, {"summary": {"options/2/partial_failure": True}}, "6.3.4.1", "missing in option 2, so"),
    (made.kv_tree, {"summary": {"options/2/partial_failure": True, "options/2/missing_files": ["a", "b"]}},
     "6.3.4.1", "missing in option 2 (2 of 6), so"),
    (made.kv_tree, {"summary": {"options/2/cpu_tier_ranks": ["a"] * 6}}, "6.3.4.4", "option 2 was served from memory"),
    ),
}  # fmt: skip
CASES = [(rule, *case) for rule, cases in PLANTED.items() for case in cases]


@pytest.mark.parametrize(
    ("rule", "tree", "changes", "number", "words"), CASES, ids=[f"{number} {words}" for *_, number, words in CASES]
)
def test_a_broken_rule_is_named_by_its_number(
    rule: str, tree: Tree, changes: Mapping[str, Any], number: str, words: str, tmp_path: Path
) -> None:
    run = read(tree(tmp_path, **changes))
    found = [says for says in faults(run) if words in says]
    assert len(found) == 1, faults(run)
    place = number if number.startswith("Sub") else f"Rules.md {number},"
    assert found[0].startswith(place)
    (finding,) = [finding for finding in run.findings if finding.says == found[0]]
    assert finding.rule == rule and finding.evidence["source"].startswith("mlcommons/storage, ")


def test_runs_are_too_far_apart_for_one_series(tmp_path: Path) -> None:
    made.training_tree(tmp_path)
    late = f"{RUN}/{STARTS[5]}/summary.json"
    write(tmp_path, late, changed(training_summary(), {"start": "2026-07-02T15:00:00", "end": "2026-07-02T15:50:00"}))
    assert ["24 h 10 min are between the runs" in says for says in faults(read(tmp_path))] == [True]


def test_what_the_files_do_not_state_is_called_unknown(tmp_path: Path) -> None:
    """A rule that cannot be decided is one line, and no fault."""
    without = {"host_memory_GB": None, "end": None}
    bare = {"parameters": {}, "override_parameters": None, "args": {}}
    run = read(made.training_tree(tmp_path, summary=without, metadata=bare))
    assert faults(run) == []
    says = notes(run, "unknown")
    for number, words in (
        ("3.1.2", "batch size"), ("3.1.2", "hosts' memory or"), ("2.1.18", "starts or ends"),
        ("3.4.1", "folders of data"),
        ("3.6.2", "no file lists the parameters"),
    ):  # fmt: skip
        assert len([line for line in says if f"Rules.md {number}, MLPerf Storage 3.0" in line and words in line]) == 1
    assert all(len(line.splitlines()) == 1 and line.endswith("(6 runs)") for line in says)


def test_more_files_than_datasize_calculated_are_no_fault(tmp_path: Path) -> None:
    """Alluxio's unet3d of 3.0 used 7,412 files and calculated 6,738."""
    made.training_tree(tmp_path)
    name = f"{TREE}/training/unet3d/datasize/20260701_080000/training_20260701_080000_metadata.json"
    write(tmp_path, name, changed(made.training_metadata("datasize"), {"parameters/dataset/num_files_train": 12_000}))
    assert faults(read(tmp_path)) == []


def test_caches_that_may_have_been_cleared_are_no_fault(tmp_path: Path) -> None:
    numbers = {"args/num_checkpoints_write": 5, "args/num_checkpoints_read": 5}
    run = read(made.checkpoint_tree(tmp_path, metadata=numbers))
    assert faults(run) == []
    assert any("4.3.1" in says and "2.09 times the hosts' 251 GiB" in says for says in notes(run, "unknown"))
    stored = read(made.checkpoint_tree(tmp_path, metadata={**numbers, "args/data_access_protocol": "object"}))
    assert not any("4.3.1" in says or "4.4" in says for says in notes(stored, "unknown")), "no cache, and no filesystem"


def test_a_checkpoint_that_fits_each_accelerator_needs_no_name_of_one(tmp_path: Path) -> None:
    run = read(made.checkpoint_tree(tmp_path / "small"))
    assert notes(run, "unknown") == []
    large = read(made.checkpoint_tree(tmp_path / "large", summary={"metric/checkpoint_size_GB": 700.0}))
    assert ["4.3.4" in says and "emulated accelerator" in says for says in notes(large, "unknown")] == [True]


def test_runs_without_a_stamp_are_of_3_0_by_their_layout(tmp_path: Path) -> None:
    for tree in (made.checkpoint_tree, made.native_vector_tree, made.kv_tree):
        assert "MLPerf Storage 3.0 for" in notes(read(tree(tmp_path)), "rules")[0]
    assert "no edition" not in notes(read(tmp_path), "rules")[0]


@pytest.mark.parametrize("above", ["closed", "closed/acme", "closed/acme/results", TREE, f"{TREE}/kv_cache"])
def test_division_and_system_are_found_above_the_folder(above: str, tmp_path: Path) -> None:
    made.kv_tree(tmp_path, metadata={"args": {}})
    facts = read(tmp_path / above).experiments[0].points[0].details["mlperf"]
    assert (facts["division"], facts["system"]) == ("closed", "sys-1")


def test_what_closed_alone_requires_is_unknown_without_a_division(tmp_path: Path) -> None:
    made.kv_tree(tmp_path, summary={"trials_per_option": 1}, metadata={"args": {}})
    (tmp_path / TREE).rename(tmp_path / "mine")
    run = read(tmp_path / "mine")
    assert faults(run) == [] and any("6.3.1.1" in says and "division" in says for says in notes(run, "unknown"))


@pytest.mark.parametrize(
    ("changes", "section"),
    [
        ({"metadata": {"args/num_checkpoints_write": 5, "args/num_checkpoints_read": 0}}, "4.7.1"),
        ({"summary": {"num_accelerators": 16}}, "4.6.1"),
        ({"summary": {"num_hosts": 4}}, "4.6.2"),
    ],
)
@pytest.mark.parametrize("folder", ["mine", "open"])
def test_checkpoint_rules_of_closed_need_that_division(
    changes: dict[str, Any], section: str, folder: str, tmp_path: Path
) -> None:
    made.checkpoint_tree(tmp_path, **changes)
    if folder == "mine":
        (tmp_path / TREE).rename(tmp_path / folder)
    else:
        (tmp_path / "closed").rename(tmp_path / folder)
    run = read(tmp_path / folder)
    is_unknown = any(f"Rules.md {section}" in says and "division" in says for says in notes(run, "unknown"))
    assert faults(run) == [] and is_unknown == (folder == "mine")


def test_autoscaling_of_no_recorded_command_is_unknown(tmp_path: Path) -> None:
    run = read(made.kv_tree(tmp_path, metadata={"command_output_files": None}))
    assert faults(run) == []
    assert [f"Rules.md {number}," in " ".join(notes(run, "unknown")) for number in ("6.3.1.1", "6.3.2.2")] == [True] * 2


def test_metadata_is_kept_without_its_hardware(tmp_path: Path) -> None:
    """That of one run with 51 hosts has 2.4 MB."""
    folder = result_folder.ResultFolder.walk(made.training_tree(tmp_path))
    found = [read_documents(folder, leaf).metadata for leaf in find_leaves(folder)]
    assert found and all("cluster_snapshots" not in metadata for metadata in found)
    assert {str(metadata["system_info"]) for metadata in found} == {
        str({"total_memory_bytes": 376 * GIB, "num_hosts": 2})
    }


def test_an_edition_that_no_file_states_is_said(tmp_path: Path) -> None:
    write(tmp_path, "training/unet3d/run/20260701_100000/summary.json", training_summary())
    run = read(tmp_path)
    assert "3.0 for 1 result that state no edition" in notes(run, "rules")[0]


def test_a_folder_of_one_run_is_not_judged_by_their_number(tmp_path: Path) -> None:
    run = read(made.training_tree(tmp_path) / RUN / STARTS[1])
    assert faults(run) == [] and [point.parameters["run"] for point in run.experiments[0].points] == [STARTS[1]]
    assert any("Rules.md 2.1.17" in says and "the folder is one of them" in says for says in notes(run, "unknown"))
    assert any("Rules.md 3.3.1" in says and "datasize is outside of it" in says for says in notes(run, "unknown"))


def test_an_unknown_edition_is_judged_by_the_latest(tmp_path: Path) -> None:
    made.training_tree(tmp_path)
    for start in STARTS:
        write(tmp_path, f"{RUN}/{start}/provenance.json", {**made.STAMP, "rules_edition": "9.0"})
    run = read(tmp_path)
    assert "MLPerf Storage 3.0 for 6 results that state 9.0" in notes(run, "rules")[0] and faults(run) == []


def test_rules_that_contradict_each_other_decide_nothing(tmp_path: Path) -> None:
    run = read(made.checkpoint_tree(tmp_path, summary={"num_hosts": 2}))
    assert faults(run) == [] and any("Rules.md 4.6.2" in says and "Table 3" in says for says in notes(run, "unknown"))


def test_what_if_runs_are_not_counted(tmp_path: Path) -> None:
    (made.training_tree(tmp_path, runs=2, summary={"num_files_train": 13_000}) / "closed").rename(tmp_path / "whatif")
    found = faults(read(tmp_path))
    assert len(found) == 2 and all("Rules.md 3.1.2" in says for says in found), "steps and memory"


def test_an_edition_of_2_0_has_its_own_sections(tmp_path: Path) -> None:
    """Its metadata has other names, and its warm-up left no folder."""
    metadata = {"parameters": None, "override_parameters": None, "accelerator": "h100"}
    metadata |= {"combined_params": made.training_metadata()["parameters"], "params_dict": {"reader.batch_size": 8}}
    made.training_tree(tmp_path, metadata=metadata, runs=5)
    for start in STARTS[:5]:
        (tmp_path / RUN / start / "provenance.json").unlink()
    run = read(tmp_path)
    (says,) = faults(run)
    assert says.startswith("Submission_guidelines.md 10.1, unet3d on h100") and "reader.batch_size was changed" in says
    assert any("guidelines.md 6.6" in line and "warm-up" in line for line in notes(run, "unknown"))


def test_much_yaml_is_not_parsed(tmp_path: Path) -> None:
    made.tree_of_1_0(tmp_path)
    folder = result_folder.ResultFolder.walk(tmp_path)
    folder._slow_left = 500
    run = formats.list_folder_formats()["mlpstorage"].read_folder(folder)
    assert any("more than is read of one folder" in line for line in notes(run, "not_read"))


def test_a_run_without_figures_is_named_and_the_others_are_read(tmp_path: Path) -> None:
    made.training_tree(tmp_path)
    write(tmp_path, f"{RUN}/{STARTS[2]}/summary.json", '{"metric": {"train_au_percentage": [NaN]}')
    write(tmp_path, f"{RUN}/{STARTS[3]}/summary.json", changed(training_summary(), {"metric": {}}))
    run = read(tmp_path)
    assert len(run.experiments[0].points) == 4
    assert any("Rules.md 3.3.8" in says and "2 runs without figures" in says for says in faults(run))
    assert any("is not JSON" in says for says in notes(run, "not_read"))


def test_no_other_run_is_the_warm_up_where_that_has_no_figures(tmp_path: Path) -> None:
    made.training_tree(tmp_path)
    (tmp_path / RUN / STARTS[0] / "summary.json").unlink()
    write(tmp_path, f"{RUN}/{STARTS[1]}/summary.json", training_summary(STARTS[1], au=80.0))
    found = faults(read(tmp_path))
    assert any("AU is below 90% in 1 of 5 measured runs" in says for says in found)
    assert any("1 run without figures, 20260701_100000" in says for says in found)


def test_a_warm_up_alone_is_not_judged_by_its_figures(tmp_path: Path) -> None:
    made.training_tree(tmp_path)
    for start in STARTS[1:]:
        (tmp_path / RUN / start / "summary.json").unlink()
    assert ["5 runs without figures" in says for says in faults(read(tmp_path))] == [True]


def test_links_pipes_large_files_and_deep_trees_are_left_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    outside, root = tmp_path / "outside", tmp_path / "in"
    made.training_tree(outside)
    made.training_tree(root)
    (root / TREE / "training/loop").symlink_to(root)
    (root / TREE / "training/elsewhere").symlink_to(outside)
    os.mkfifo(root / TREE / "training/pipe")
    with (root / RUN / STARTS[1] / "summary.json").open("wb") as large:
        large.truncate(100 << 20)
    deep = root / "/".join(["d"] * 40)
    deep.mkdir(parents=True)
    (root / RUN / os.fsdecode(b"\xff\n")).mkdir()
    run = read(root)
    assert len(run.experiments) == 1 and len(run.experiments[0].points) == 5
    lines = notes(run, "not_read")
    assert "summary.json is too large for its kind (100 MiB)" in lines[0]
    assert any("more that could not be read" in line for line in lines) and all("\n" not in line for line in lines)
    monkeypatch.setattr(result_folder, "MAX_ENTRIES", 10)
    with pytest.raises(UserError, match="without results of mlpstorage"):
        formats.read_folder(root)


def test_code_in_a_submission_has_no_results(tmp_path: Path) -> None:
    """A copy of the benchmark's source has the results that its tests need."""
    made.training_tree(tmp_path)
    for name in ("closed/acme/code", "code-images/code-0123abcd"):
        write(tmp_path, f"{name}/tests/training/unet3d/run/20250101_000000/summary.json", training_summary())
    assert len(read(tmp_path).experiments[0].points) == 6


# --- the commands


def test_audit_prints_every_run_and_ends_by_what_is_broken(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    made.training_tree(tmp_path, runs=5)
    assert main(["audit", str(tmp_path)]) == 3
    out = capsys.readouterr().out
    assert "mlpstorage-folder, 5 results" in out and "submission: mlpstorage alone makes one" in out
    assert out.count("93.5%") == 5 and "160 samples/s" in out and "23.5 GB/s" in out
    assert "! Rules.md 2.1.17, unet3d on b200 (sys-1): there are 5 runs instead of 6" in out
    assert "(hwdyno explain mlperf_training)" in out and "not read: 10 files, for example closed/" in out


def test_audit_of_a_sound_folder_ends_well(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    made.training_tree(tmp_path)
    assert main(["audit", str(tmp_path)]) == 0
    out = capsys.readouterr().out
    assert f"{STARTS[0]} (warm-up)" in out and "No law is broken in 6 results." in out


def test_report_and_import_take_a_folder(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = made.training_tree(tmp_path / "results")
    assert main(["report", str(folder), "--store", str(tmp_path / "store")]) == 0
    assert main(["import", str(folder), "--no-page", "--store", str(tmp_path / "store")]) in {0, 3}
    assert "Training" in capsys.readouterr().out


@pytest.mark.parametrize(
    "broken", ["", "{", "[1]", '{"metric": 1}', '{"metric": {}}', "\0", '{"num_accelerators": 1e400}']
)
def test_a_folder_without_figures_is_one_line(broken: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write(tmp_path, "training/unet3d/run/20260701_100000/summary.json", broken)
    assert main(["audit", str(tmp_path)]) == 2
    captured = capsys.readouterr()
    assert captured.out == "" and len(captured.err.splitlines()) == 1 and "without figures" in captured.err


def test_an_empty_folder_is_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["audit", str(tmp_path)]) == 2
    assert "is a folder without results of mlpstorage" in capsys.readouterr().err


@pytest.mark.parametrize(("au", "says"), [(62.0, "AU fails the limit"), (93.0, "")])
def test_a_summary_alone_has_the_verdict_of_dlio(au: float, says: str, tmp_path: Path) -> None:
    """A folder is judged by its edition's rules instead."""
    path = write(tmp_path, "summary.json", training_summary(au=au))
    found = [finding.says for finding in explain(read_run(path)).findings if finding.rule == "failed_au"]
    assert [bool(says) and says in text for text in found] == [True] * bool(says)
    run = read(made.training_tree(tmp_path / "tree", summary={"metric": training_summary(au=au)["metric"]}))
    assert "failed_au" not in {finding.rule for finding in run.findings}
