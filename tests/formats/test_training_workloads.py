"""Workloads as data: the catalogue's needs, DLIO's own files, and its summary."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hwdyno.formats import dlio, dlio_yaml, workload
from hwdyno.model.words import ExperimentResult, Run, UserError

# MB/s an accelerator at full speed, as MLPerf Storage's figures have it
NEEDS = {
    ("unet3d", "v100"): 431,
    ("unet3d", "a100"): 1613,
    ("unet3d", "h100"): 3177,
    ("unet3d", "b200"): 6335,
    ("resnet50", "a100"): 105,
    ("resnet50", "h100"): 205,
    ("cosmoflow", "a100"): 513,
    ("cosmoflow", "h100"): 808,
    ("bert", "v100"): 0.12,
    ("retinanet", "b200"): 163,
    ("flux", "b200"): 77,
    ("dlrm", "b200"): 33249,
}


def test_catalogue_has_workloads_with_needs() -> None:
    found = {
        (name, accelerator): kind for name, kinds in workload.catalogue().items() for accelerator, kind in kinds.items()
    }
    assert set(found) == set(NEEDS)
    for key, need in NEEDS.items():
        assert found[key].need_bytes_s / 1e6 == pytest.approx(need, rel=0.04), key
        assert found[key].source


def test_every_parameter_of_a_workload_is_one_of_the_kernels(monkeypatch: pytest.MonkeyPatch) -> None:
    from hwdyno.measure import engine

    loader = set(engine.kernels()["training_loader"].names)
    generate = set(engine.kernels()["training_generate"].names)
    for kinds in workload.catalogue().values():
        for kind in kinds.values():
            assert set(kind.parameters) <= loader
            assert set(kind.layout) <= generate


def test_the_rules_least_data_set() -> None:
    unet = workload.find("unet3d", "H100")
    assert unet.min_bytes(1, 16e9) == pytest.approx(500 * 7 * 146_600_628)
    assert unet.min_bytes(1, 512e9) == pytest.approx(5 * 512e9)


def test_selective_read_needs_its_columns_alone() -> None:
    dlrm = workload.find("dlrm", "b200")
    assert (dlrm.row_group, dlrm.columns, dlrm.read_columns) == (6144, 200, 40)
    assert dlrm.need_bytes_s == pytest.approx(33.2e9, rel=0.01)
    assert dlrm.read_record_bytes == 160
    assert dlrm.need_read_bytes_s == pytest.approx(7.0e9, rel=0.01)
    unet = workload.find("unet3d", "h100")
    assert unet.need_read_bytes_s == unet.need_bytes_s


def test_samples_scale_the_files() -> None:
    assert workload.find("unet3d", "a100").with_samples(1000).files == 1000
    resnet = workload.find("resnet50", "a100")
    assert (resnet.with_samples(3000).files, resnet.with_samples(3000).samples_per_file) == (3, 1251)
    assert (resnet.with_samples(100).files, resnet.with_samples(100).samples_per_file) == (1, 100)
    with pytest.raises(UserError, match="at least 1 sample"):
        resnet.with_samples(0)


def test_what_is_unknown_is_named_with_what_is_near() -> None:
    with pytest.raises(UserError, match="no workload is called 'unet'; did you mean 'unet3d'"):
        workload.find("unet", "h100")
    with pytest.raises(UserError, match="cosmoflow has no accelerator 'b200'; known: a100, h100"):
        workload.find("cosmoflow", "b200")


YAML = """
model: {name: unet3d, type: cnn, model_size: 499153191}
framework: pytorch
workflow: {generate_data: False, train: True, checkpoint: True}
dataset:
  data_folder: data/unet3d/
  format: npz
  num_files_train: 168
  num_samples_per_file: 1
  record_length_bytes: 146600628
  record_length_bytes_stdev: 68341808
  record_length_bytes_resize: 2097152
reader: {data_loader: pytorch, batch_size: 7, read_threads: 4, file_shuffle: seed, sample_shuffle: seed}
train: {epochs: 5, computation_time: 0.323}
checkpoint: {checkpoint_folder: checkpoints/unet3d, checkpoint_after_epoch: 5, epochs_between_checkpoints: 2}
metric: {au: 0.90}
"""


@pytest.fixture
def unet_yaml(tmp_path: Path) -> Path:
    path = tmp_path / "unet3d_h100.yaml"
    path.write_text(YAML)
    return path


def test_dlio_file_is_read_unchanged(unet_yaml: Path) -> None:
    kind, known = dlio_yaml.read(unet_yaml), workload.find("unet3d", "h100")
    assert kind.prefetch == 1  # DLIO's 2 over 4 readers
    assert kind.parameters == known.parameters
    assert kind.folder == "data/unet3d/"


def test_overrides_are_in_dlios_spelling(unet_yaml: Path) -> None:
    options = ["++workload.reader.batch_size=4", "++workload.train.computation_time=0.1", "++workload.metric.au=0.5"]
    kind = dlio_yaml.read(unet_yaml, options)
    assert (kind.batch_size, kind.compute_s, kind.au) == (4, 0.1, 0.5)


@pytest.mark.parametrize(("size", "prefetch"), [("0", 2), ("1", 1), ("4", 1), ("5", 2), ("8", 2), ("9", 3)])
def test_prefetch_size_is_split_among_readers(unet_yaml: Path, size: str, prefetch: int) -> None:
    assert dlio_yaml.read(unet_yaml, [f"++workload.reader.prefetch_size={size}"]).prefetch == prefetch


@pytest.mark.parametrize(
    ("override", "says"),
    [
        ("++workload.reader.batchsize=4", "unknown key 'reader.batchsize'; did you mean 'reader.batch_size'"),
        ("++workload.wibble=4", "unknown key 'wibble'"),
        ("reader.batch_size=4", "is not an override"),
        ("++workload.reader.batch_size", "is not an override"),
        ("++workload.reader.batch_size=0", "batch_size = 0 must be a number of 1 or more"),
        ("++workload.reader.batch_size=many", "batch_size = 'many' must be a number"),
        ("++workload.dataset.format=synthetic", "the format 'synthetic' is not supported"),
        ("++workload.dataset.compression=gzip", "compressed data sets"),
        ("++workload.framework.x=1", "framework is not a table"),
    ],
)
def test_what_is_wrong_in_a_dlio_file_is_said(unet_yaml: Path, override: str, says: str) -> None:
    with pytest.raises(UserError) as raised:
        dlio_yaml.read(unet_yaml, [override])
    assert says in str(raised.value)


def test_old_spellings_and_distributions_are_read(tmp_path: Path) -> None:
    path = tmp_path / "bert.yaml"
    path.write_text(
        "model: bert\ndataset: {format: tfrecord, record_length: 2500, file_prefix: part}\n"
        "data_reader: {batch_size: 48, transfer_size: 262144}\n"
        "train: {total_training_steps: 1000, computation_time: {mean: 0.968, stdev: 0.1}}\n"
    )
    kind = dlio_yaml.read(path)
    assert (kind.name, kind.record_bytes, kind.batch_size, kind.compute_s) == ("bert", 2500, 48, 0.968)
    assert (kind.steps, kind.transfer_size, kind.prefix) == (1000, 262144, "part")


@pytest.mark.parametrize("text", ["{", "[1, 2]", ""])
def test_what_is_no_workload_is_said_in_one_line(tmp_path: Path, text: str) -> None:
    path = tmp_path / "x.yaml"
    path.write_text(text)
    with pytest.raises(UserError) as raised:
        dlio_yaml.read(path)
    assert "\n" not in str(raised.value)


SUMMARY = {
    "start": "2025-06-01T10:00:00", "end": "2025-06-01T10:10:00",
    "num_accelerators": 2, "num_hosts": 1, "hostname": "node7",
    "metric": {
        "train_au_percentage": [90.0, 94.0], "train_au_mean_percentage": 92.0,
        "train_au_meet_expectation": "success", "train_au_stdev_percentage": 2.0,
        "train_throughput_samples_per_second": [39.0, 41.0], "train_throughput_mean_samples_per_second": 40.0,
        "train_throughput_stdev_samples_per_second": 1.0,
        "train_io_mean_MB_per_second": 40.0 * 146600628 / 2**20, "train_io_stdev_MB_per_second": 139.8,
    },
    "num_files_train": 168, "num_files_eval": 0, "num_samples_per_file": 1, "host_memory_GB": [24.0], "epochs": 2,
}  # fmt: skip


def test_summary_is_read_and_written_again() -> None:
    from hwdyno import formats

    text = json.dumps(SUMMARY)
    assert dlio.recognizes(text)
    assert not formats.list_formats()["fio"].recognizes(text)
    run = dlio.read(text, "summary.json")
    ((point,),) = [result.points for result in run.experiments]
    assert point.throughput.value == pytest.approx(40 * 146600628, rel=0.01)
    assert point.details["au_dlio"] == pytest.approx(0.92)
    assert run.machine.hostname == "node7"

    result: ExperimentResult = run.experiments[0]
    point.details["samples_s_dlio_by_epoch"] = [39.0, 41.0]
    again = dlio.write(run, result, point)
    for key in ("num_accelerators", "num_files_train", "num_samples_per_file", "hostname", "epochs", "start", "end"):
        assert again[key] == SUMMARY[key], key
    metric, expected = again["metric"], SUMMARY["metric"]
    assert isinstance(expected, dict)
    assert set(metric) == set(expected)
    for key, value in expected.items():
        if key != "train_io_stdev_MB_per_second":
            assert metric[key] == pytest.approx(value, rel=1e-9) if not isinstance(value, str) else metric[key] == value


def test_damaged_summary_is_one_line() -> None:
    broken = json.dumps({**SUMMARY, "metric": {}})
    with pytest.raises(UserError, match=r"not a readable DLIO summary.* it has no 'train_throughput"):
        dlio.read(broken, "summary.json")
    assert isinstance(dlio.read(json.dumps(SUMMARY), "x"), Run)


@pytest.mark.parametrize(
    ("name", "ranks", "model_gib", "all_gib", "rank_gib", "model_files"),
    [
        # summed rank by rank and layer by layer as DLIO does; 14.23 and 11.8 GB of a rank are the rules' own examples
        ("llama3-8b", (8, 8), 14.958, 104.705, 13.09, 1),
        ("llama3-70b", (64, 64), 130.184, 911.212, 14.24, 1),
        ("llama3-405b", (512, 256), 756.015, 5292.249, 11.8, 4),
        ("llama3-1t", (1024, 512), 2203.661, 15426.589, 17.2, 2),
    ],
)
def test_checkpoints_have_layouts_of_rules(
    name: str, ranks: tuple[int, int], model_gib: float, all_gib: float, rank_gib: float, model_files: int
) -> None:
    from hwdyno.formats import checkpoint_sizes

    whole, part = checkpoint_sizes.find(name, 1.0), checkpoint_sizes.find(name, 0.01)
    layout = whole.layout
    assert (layout.ranks, layout.model_ranks, layout.model_files) == (*ranks, model_files)
    assert layout.model_bytes / 2**30 == pytest.approx(model_gib, abs=0.001)
    assert whole.bytes / 2**30 == pytest.approx(all_gib, abs=0.001)
    assert part.bytes == pytest.approx(whole.bytes / 100, rel=1e-6)
    mean = layout.model_bytes / layout.model_ranks + layout.optimizer_bytes / layout.ranks
    assert mean / 2**30 == pytest.approx(rank_gib, rel=0.005)
    # all but the 1T are what the rules state; its 17997 GiB are the whole and a sixth of it again
    stated = 7 / 6 * all_gib if name == "llama3-1t" else all_gib
    assert stated == pytest.approx(layout.stated_gib, rel=0.003)
    assert (whole.writes, whole.reads) == (10, 10)
    sentence = part.memory(part.ranks)
    assert sentence.startswith(f"{name} at scale 0.01: ")
    assert ("the rules state 17.6 TiB in total, but this layout has 15.1 TiB" in sentence) == (name == "llama3-1t")
