"""Calls of the Python API: followed by a callback, ended from another thread, and Runs as a program uses them."""

from __future__ import annotations

import asyncio
import sys
import threading
import time
from pathlib import Path
from types import ModuleType
from typing import Any

import hwdyno
import made_store as made
import pytest
from hwdyno import api, session
from hwdyno.explain import findings
from hwdyno.formats.table import make_rows
from hwdyno.measure.hosts.local import Local
from hwdyno.model.words import Curve
from hwdyno.system import signals
from hwdyno.system.store import Store, to_json
from simulation.coupled import CoupledHost

GREAT_S = 5.0
"""A cancelled call ends in far less, on a busy machine too."""


@pytest.fixture
def home(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """The folder of the Runs of a test, which works in its own directory."""
    monkeypatch.setenv("HWDYNO_HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)
    return tmp_path / "home"


@pytest.fixture
def simulated(monkeypatch: pytest.MonkeyPatch, home: Path) -> CoupledHost:
    """The simulated machine that commands measure."""
    host = CoupledHost(1)
    monkeypatch.setattr(session, "this_site", lambda: host)
    return host


def stored_run(run_id: str = "r1", rate: float = 1e8) -> hwdyno.Run:
    """A small Run with a curve and findings, in the store."""
    depths = made.experiment(*(made.point(depth, rate * min(depth, 8)) for depth in (1, 2, 4, 8, 16, 32)))
    run = findings.explain(made.run(depths, run_id=run_id))
    Store().save(run)
    return hwdyno.load(run_id)


def test_callback_follows_each_reading_and_point(simulated: CoupledHost) -> None:
    events: list[hwdyno.ProgressEvent] = []
    run = hwdyno.measure("memory", operation="read", threads=[1, 2], seed=1, progress=events.append)
    readings = [event for event in events if event.total]
    points = [event.point for event in events if event.point is not None]
    assert [event.done for event in readings] == sorted(event.done for event in readings) and len(readings) >= 4
    assert all(event.experiment == "memory.sweep" and "read" in event.text for event in readings)
    assert {point.parameters["threads"] for point in points} == {1, 2}
    assert all(point in points for point in run["memory.sweep"].points)


def test_failing_callback_ends_call_and_keeps_points(simulated: CoupledHost) -> None:
    def fail(event: hwdyno.ProgressEvent) -> None:
        if event.point is not None:
            raise ZeroDivisionError("of the callback")

    with pytest.raises(ZeroDivisionError, match="of the callback"):
        hwdyno.measure("memory", operation="read", threads=[1, 2, 3, 4], seed=1, progress=fail)
    kept = hwdyno.load()
    assert kept.interrupted and 1 <= len(kept["memory.sweep"].points) <= 4


def test_cancelled_call_gives_the_points_so_far(simulated: CoupledHost) -> None:
    cancellation = hwdyno.Cancellation()

    def cancel(event: hwdyno.ProgressEvent) -> None:
        if event.done == 3:
            cancellation.cancel()

    run = hwdyno.measure("memory", threads=[1, 2, 3, 4], seed=1, progress=cancel, cancellation=cancellation)
    assert run.interrupted and cancellation.is_cancelled and run["memory.sweep"].points
    assert hwdyno.load() == run and "interrupted" in repr(run)
    again = hwdyno.measure("memory", threads=[1, 2], seed=1)
    assert not again.interrupted, "a cancelled call leaves nothing behind for the next"


def test_call_cancelled_before_it_began_measures_nothing(simulated: CoupledHost, home: Path) -> None:
    cancellation = hwdyno.Cancellation()
    cancellation.cancel()
    with pytest.raises(hwdyno.StoppedError, match="before anything was measured"):
        hwdyno.measure("memory", threads=1, cancellation=cancellation)
    assert not list(home.rglob("*.json"))


@pytest.mark.machine
def test_cancelled_task_of_asyncio_ends_the_kernel(home: Path) -> None:
    begun, runs, ends_s = threading.Event(), list[hwdyno.Run](), list[float]()

    def work(cancellation: hwdyno.Cancellation) -> None:
        runs.append(
            hwdyno.measure(
                *("memory",), operation="read", threads=1, working_set="1M", runtime=60,
                progress=lambda _: begun.set(), cancellation=cancellation,
            )
        )  # fmt: skip

    async def measure() -> None:
        with hwdyno.Cancellation() as cancellation:
            await asyncio.to_thread(work, cancellation)

    async def give_up() -> None:
        task = asyncio.create_task(measure())
        while not begun.is_set():
            await asyncio.sleep(0.01)
        await asyncio.sleep(0.2)
        task.cancel()
        ends_s.append(time.monotonic())
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(give_up())  # It waits for the thread.
    assert runs[0].interrupted and time.monotonic() - ends_s[0] < GREAT_S
    assert not signals.is_end_requested()


def test_two_threads_are_cancelled_apart(simulated: CoupledHost) -> None:
    first, second = hwdyno.Cancellation(), hwdyno.Cancellation()
    runs: dict[str, hwdyno.Run] = {}

    def work(name: str, cancellation: hwdyno.Cancellation) -> None:
        def cancel(event: hwdyno.ProgressEvent) -> None:
            if name == "first" and event.done == 2:
                cancellation.cancel()

        runs[name] = hwdyno.measure("memory", threads=[1, 2, 3, 4], seed=1, progress=cancel, cancellation=cancellation)

    threads = [threading.Thread(target=work, args=pair) for pair in (("first", first), ("second", second))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert runs["first"].interrupted and not runs["second"].interrupted


def test_run_is_looked_up_by_experiment_and_short_in_print(home: Path) -> None:
    run = stored_run()
    result = run["storage.iodepth"]
    assert result is run.experiments[0] and isinstance(result.curve, Curve) and result.curve.knee is not None
    assert list(run) == ["storage.iodepth"] and "storage.iodepth" in run and "storage.grid" not in run
    with pytest.raises(hwdyno.UserError, match=r"did you mean 'storage\.iodepth'"):
        run["storage.iodpeth"]
    assert repr(run).startswith("<Run r1: storage, 1 experiment, 6 points") and len(repr(run)) < 120
    bare = hwdyno.Run.from_document(made.run(made.experiment(made.point(1, 1e8)), run_id="r2"))
    with pytest.raises(hwdyno.UserError, match="has no curve"):
        _ = bare["storage.iodepth"].curve


def test_saved_run_is_read_again(home: Path, tmp_path: Path) -> None:
    run = stored_run()
    path = run.save("copy.json")
    assert path == Path("copy.json") and hwdyno.load(path) == run and to_json(hwdyno.load(path)) == to_json(run)
    (tmp_path / "mine.json").write_text("mine")
    with pytest.raises(hwdyno.UserError, match="overwrite"):
        run.save("mine.json")
    run.save("mine.json", overwrite=True)
    assert hwdyno.load("mine.json") == run


def test_run_becomes_a_table(home: Path) -> None:
    run = stored_run()
    rows = make_rows(run)
    assert run.to_arrow().to_pylist() == [{name: row.get(name) for name in rows[0]} for row in rows]
    frame = run.to_pandas()
    assert list(frame["parameter_iodepth"]) == [1, 2, 4, 8, 16, 32]
    assert run.to_polars()["throughput_bytes_s"].to_list() == [row["throughput_bytes_s"] for row in rows]


@pytest.mark.parametrize(
    ("library", "says"),
    [
        ("pandas", "needs pandas: pip install pandas"),
        ("polars", "needs polars: pip install polars"),
        ("pyarrow", 'needs pyarrow: pip install "hwdyno'),
    ],
)
def test_missing_library_of_tables_is_one_line(
    library: str, says: str, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run: Any = stored_run()
    monkeypatch.setitem(sys.modules, library, None)
    method = {"pyarrow": "to_arrow"}.get(library, f"to_{library}")
    with pytest.raises(hwdyno.UserError, match=rf"{method}\(\) {says}"):
        getattr(run, method)()


def test_history_and_comparison_are_typed_results(home: Path) -> None:
    before, after = stored_run("r1"), stored_run("r2", rate=0.5e8)
    assert [entry.id for entry in hwdyno.history()] == ["r2", "r1"]
    compared = hwdyno.compare(before, after)
    assert compared.base == "r1" and [side.name for side in compared.sides] == ["r2"]
    assert compared.sides[0].changes and "r2" in str(compared) and repr(compared).startswith("<Comparison with r1: ")
    assert hwdyno.compare("r1", "r2").sides[0].changes == compared.sides[0].changes
    with pytest.raises(hwdyno.UserError, match="nothing to be compared with"):
        hwdyno.compare("r1")


def test_audit_names_what_cannot_be_true(home: Path, tmp_path: Path) -> None:
    (tmp_path / "table.csv").write_text("rw,bs,QD,BW (MB/s)\nread,128k,8,9210\n")
    audit = hwdyno.audit("table.csv", link="PCIe 3 x4")
    assert audit.faults and audit.run.findings and "9,210 MB/s" in audit.faults[0].says
    assert repr(audit).startswith("<Audit: 1 fault in <Run ")
    assert not hwdyno.audit("table.csv", link=["PCIe 5 x8"], columns={"BW (MB/s)": "MB/s"}).faults
    with pytest.raises(hwdyno.UserError, match="name a file"):
        hwdyno.audit()


def test_fleet_of_stored_runs(home: Path) -> None:
    stored_run("r1")
    fleet = hwdyno.fleet()
    assert fleet.slow == () and isinstance(fleet, api.Fleet)


def test_refusal_of_the_machine_is_of_the_family(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse() -> Local:
        raise PermissionError(13, "Permission denied", "/dev/nvme0n1")

    monkeypatch.setattr(session, "this_site", refuse)
    with pytest.raises(hwdyno.MeasurementError, match=r"^/dev/nvme0n1: Permission denied$") as refused:
        hwdyno.run()
    assert isinstance(refused.value, hwdyno.HwdynoError)


def test_bug_passes_as_it_is(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    broken = ModuleType("broken")
    monkeypatch.setattr(session, "this_site", lambda: broken.missing)
    with pytest.raises(AttributeError):
        hwdyno.run()


def test_example_of_the_page_runs(simulated: CoupledHost, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    page = Path(__file__).parents[2] / "docs" / "python.md"
    example = page.read_text().partition("```python\n")[2].partition("```")[0]
    lines = [line for line in example.splitlines() if line]
    assert len(lines) <= 11 and "import hwdyno" in lines
    exec(compile(example, str(page), "exec"), {})
    printed = capsys.readouterr().out
    assert "<Run " in printed and "memory.threads" in printed and " threads reach " in printed
    assert hwdyno.load(tmp_path / "memory.json").experiments
