"""The bytes that a dry run names of data sets, indexes, checkpoints, caches and journals are those then written."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from hwdyno.cli.main import main, make_parser
from hwdyno.cli.options import make_request
from hwdyno.formats import data_set, workload
from hwdyno.measure import engine, scenarios
from hwdyno.measure.hosts.local import Local
from hwdyno.measure.scenarios import Preparation
from hwdyno.measure.scenarios.request import bytes_below
from hwdyno.model.units import format_bytes
from scenario_commands import COMMANDS
from scenario_commands import place as place

SIZES = [(50_000.0, 9_000.0, 1), (2_000.0, 0.0, 40), (200_000.0, 0.0, 3)]


@pytest.mark.machine
@pytest.mark.parametrize("form", ["npz", "npy", "tfrecord", "hdf5", "jpeg", "png", "csv", "bin", "parquet"])
@pytest.mark.parametrize(("record", "spread", "samples"), SIZES)
def test_data_sets_bytes_are_known_before(
    form: str, record: float, spread: float, samples: int, tmp_path: Path
) -> None:
    kind = replace(
        workload.find("cosmoflow", "a100"), format=form, files=6, record_bytes=record, record_bytes_stdev=spread,
        samples_per_file=1 if form in {"jpeg", "png"} else samples, row_group=10, columns=4 if form == "parquet" else 1,
    )  # fmt: skip
    engine.run("training_generate", {**kind.layout, "path": str(tmp_path)})
    assert data_set.file_bytes(kind) == pytest.approx(bytes_below(tmp_path), rel=0.01)


def test_a_data_set_of_many_files_costs_no_memory_to_count() -> None:
    kind = workload.find("unet3d", "a100").with_samples(10**9)
    assert data_set.file_bytes(kind) == pytest.approx(kind.bytes, rel=0.02)


class Watched:
    """The most bytes that lay below a folder, looked at all the time."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.most = folder, 0
        self._ends = threading.Event()
        self._thread = threading.Thread(target=self._look)

    def _look(self) -> None:
        while not self._ends.is_set():
            with contextlib.suppress(OSError):  # A file went while it was looked at.
                self.most = max(self.most, bytes_below(self.folder))
            time.sleep(0.002)

    def __enter__(self) -> Watched:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ends.set()
        self._thread.join()


def choose_command(words: Sequence[str]) -> str:
    """The command that has these options."""
    return "inference" if {"--kv-cache", "--vector-search"} & {*words} else "training"


def prepared(*words: str) -> dict[str, Preparation]:
    """What a command's dry run counts, by the first words of its line."""
    command = choose_command(words)
    request = make_request(make_parser(command).read([*words]), command, scenarios.of_command(command))
    scenario = scenarios.make_scenario(request, Local())
    return {preparation.description.partition(":")[0]: preparation for preparation in scenario.prepares()}


@pytest.mark.machine
@pytest.mark.parametrize("name", COMMANDS)
def test_a_dry_run_names_the_bytes_that_the_run_then_writes(
    name: str, place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = [*COMMANDS[name], "--path", str(place)]
    made = prepared(*words)
    assert main([choose_command(words), *words, "--dry-run"]) == 0
    (line,) = (line for line in capsys.readouterr().out.splitlines() if line.startswith(f"{name}:"))
    assert format_bytes(made[name].bytes) in line and not list(place.iterdir())
    total = sum(preparation.bytes for preparation in made.values())
    assert total >= made[name].bytes > 0 and made[name].seconds(1e9) >= 0
    with Watched(place) as watched:
        assert main([choose_command(words), *words, "--no-page", "--quiet", "--json"]) in {0, 3}
    if made[name].is_limit:
        marks = 512  # The mark of the folder and the lock of the directory in it, less than 256 B each.
        assert 0 < watched.most <= total + marks
    else:
        assert watched.most == pytest.approx(total, rel=0.01)
    assert not list(place.iterdir())


@pytest.mark.machine
@pytest.mark.parametrize("kind", ["diskann", "hnsw", "ivf"])
def test_an_indexs_bytes_are_known_before(kind: str, place: Path) -> None:
    words = ["--vector-search", kind, "--vectors", "6000", "--dim", "96", "--path", str(place), "--generate"]
    size = prepared(*words)["index"].bytes
    assert main([choose_command(words), *words, "--quiet"]) == 0
    assert bytes_below(place) == pytest.approx(size, rel=0.01)
    assert prepared(*words)["index"].bytes == 0, "it is there"


@pytest.mark.machine
def test_what_is_there_of_a_data_set_is_not_counted_again(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = [*COMMANDS["data"], "--path", str(place), "--no-plain"]
    whole = prepared(*words)["data"].bytes
    assert main(["training", *words, "--generate", "--quiet"]) == 0
    assert prepared(*words)["data"].bytes < 0.01 * whole
    next((place / "hwdyno-cosmoflow-24" / "train").iterdir()).unlink()
    assert prepared(*words)["data"].bytes == pytest.approx(whole / 24, rel=0.2)


@pytest.mark.machine
def test_journal_is_named_with_its_bytes(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    journal = place.parent / "journal"
    words = ["--rw", "randwrite", "--bs", "4k", "--numjobs", "2", "--size", "4M", "--journal", str(journal)]
    words += ["--ioengine=psync", "--direct=0", "--iodepth=1", "--runtime=50ms", "--budget=1s", "--path", str(place)]
    words += ["--verify", "crc32c"]
    assert main(["storage", *words, "--dry-run"]) == 0
    (line,) = (line for line in capsys.readouterr().out.splitlines() if line.startswith("journal:"))
    assert str(journal) in line and not journal.exists()
    assert main(["storage", *words, "--no-page", "--quiet"]) in {0, 3}
    size = (1024 + 2 * 8 + 2 * (4 << 20) // 4096) * 8
    assert journal.stat().st_size == size and f"writes {format_bytes(size)}" in line
