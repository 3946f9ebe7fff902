"""``hwdyno compare``: what differs comes first, unlike results are refused, and the exit status follows the limit."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import made_store as made
import pytest
from hwdyno.cli.main import main
from hwdyno.explain.comparison import differences, match_points, runs_compared
from hwdyno.model.machine import Conditions, Cpu, Memory, Nic, OperatingSystem, Settings
from hwdyno.model.point_details import Note
from hwdyno.model.words import Axis, Finding, Run, Value
from hwdyno.report.compared import format_comparison, refusal
from hwdyno.system.store import to_json
from made_comparison import DEVICE, given, machine, scaled, with_points, with_results

# --- what differs


def test_settings_and_machine_that_differ_are_named_and_what_passes_is_not() -> None:
    before = scaled()
    after = replace(
        scaled(),
        machines=(
            machine(
                hostname="other",
                os=OperatingSystem(kernel="6.8", distribution="Debian 12"),
                memory=Memory(total_bytes=(64 << 30) - (1 << 20), transparent_huge_pages="madvise", available_bytes=5),
                conditions=Conditions(governor="powersave", load_1m=3.0),
                settings=Settings(environment={}),
            ),
        ),
    )
    text = format_comparison("before", [runs_compared(before, after, "after")])
    assert "Differs: kernel 6.1 → 6.8; governor performance → powersave; OMP_NUM_THREADS 4 → not set" in text
    assert text.index("Differs") < text.index("ratio") and "one machine" in text
    assert "other" not in text and "load" not in text, "a host's name and the moment's load describe no machine"
    assert [difference.path for difference in differences(before, before)] == []


@pytest.mark.parametrize(
    "changed",
    [
        {"cpu": Cpu(model="Some CPU", threads=8)},
        {"cpu": Cpu(model="Other", threads=4)},
        {"memory": Memory(total_bytes=32 << 30)},
        {"hypervisor": "kvm"},
    ],
)
def test_machine_differences_are_no_regression(changed: dict[str, Any]) -> None:
    other = replace(scaled(0.5), machines=(machine(**changed),))
    side = runs_compared(scaled(), other, "other")
    assert not side.is_one_machine and side.differences[0].is_identity
    assert runs_compared(scaled(), scaled(0.5), "after").is_one_machine


def test_interfaces_that_are_virtual_or_down_are_no_difference() -> None:
    def with_nics(*nics: Nic) -> Run:
        return replace(scaled(), machines=(machine(nics=nics),))

    real = Nic(name="eth0", driver="mlx5", bits_s=25e9, mtu=1500, up=True)
    before = with_nics(real, Nic(name="veth1", virtual=True, up=True, mtu=1400))
    assert differences(before, with_nics(replace(real, name="eth7"))) == []
    (found,) = differences(before, with_nics(replace(real, mtu=9000)))
    assert (found.path, found.before, found.after) == ("nics.0.mtu", 1500, 9000)


# --- what is alike


def test_readings_of_another_length_and_place_are_still_alike() -> None:
    fixed = {"path": "/a", "runtime": 0.25, "ramp_time": 0.1, "seed": 1, "interval_s": 0.01}
    other = {"path": "/b", "runtime": 0.31, "ramp_time": 0.2, "seed": 2, "interval_s": 0.02}
    pairs = match_points(with_results(scaled(), fixed=fixed), with_results(scaled(), fixed=other)).pairs
    assert [len(some) for some in pairs.values()] == [4]


def test_an_axis_that_a_later_version_has_parts_nothing_at_its_default() -> None:
    def declared(run: Run, *axes: Axis, **fixed: Any) -> Run:
        (result,) = run.experiments
        known = replace(result.declaration, axes=(*result.declaration.axes, *axes))
        return with_results(run, declaration=known, fixed=fixed)

    gap = Axis("gap", default=0)
    before = scaled()
    assert match_points(before, declared(scaled(), gap, gap=0)).pairs
    assert not match_points(before, declared(scaled(), gap, gap=7)).pairs


UNLIKE = {
    "block": (lambda p: given(p, bs=131072), "bs 4 KiB against 128 KiB"),
    "cache": (lambda p: given(p, direct=False), "direct against cached"),
    "refused": (lambda p: replace(p, notes=(Note("direct_refused", "It was."),)), "direct against cached"),
    "unit": (
        lambda p: replace(p, throughput=Value(9e9, "FLOP/s"), rate=None, repeat_values=(9e9,)),
        "bandwidth (bytes/s) against FLOP/s",
    ),
}


@pytest.mark.parametrize("name", UNLIKE)
def test_unlike_results_are_refused_in_one_line_that_names_what_differs(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    change, words = UNLIKE[name]
    (tmp_path / "a.json").write_text(to_json(scaled()))
    (tmp_path / "b.json").write_text(to_json(with_points(scaled(), change)))
    assert main(["compare", str(tmp_path / "a.json"), str(tmp_path / "b.json")]) == 2
    out, err = capsys.readouterr()
    assert out == "" and err.count("\n") == 1
    assert f"a.json and b.json are unlike: {words} in storage.iodepth" in err


def test_another_axis_is_refused() -> None:
    jobs = with_results(
        with_points(scaled(), lambda p: replace(given(p, iodepth=1, numjobs=p.parameters["iodepth"] * 3))),
        load="numjobs",
    )
    text = refusal([runs_compared(scaled(), jobs, "jobs")], "depths")
    assert "another axis, iodepth against numjobs" in text


@pytest.mark.parametrize(("server", "alike"), [("", True), ("127.0.0.1", True), ("10.0.0.5", False)])
def test_loopback_is_not_a_network(server: str, alike: bool) -> None:
    def run(server: str) -> Run:
        return with_results(scaled(), resource="network", kernel="network_throughput", fixed={"server": server})

    side = runs_compared(run(""), run(server), "after")
    assert bool(side.changes) == alike
    if not alike:
        assert "loopback against a network (10.0.0.5)" in refusal([side], "before")


def test_what_is_left_out_beside_what_is_compared_is_said() -> None:
    cached = with_points(scaled(name="storage.cached"), lambda p: given(p, direct=False)).experiments
    before = replace(scaled(), experiments=(*scaled().experiments, *scaled(name="storage.cached").experiments))
    after = replace(scaled(), experiments=(*scaled().experiments, *cached))
    text = format_comparison("before", [runs_compared(before, after, "after")])
    assert "Not compared: storage.cached: direct against cached" in text and "4 common points" in text


def test_a_side_alone_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "a.json").write_text(to_json(scaled()))
    assert main(["compare", str(tmp_path / "a.json")]) == 2
    assert "--device NAME" in capsys.readouterr().err
    assert main(["compare", str(tmp_path / "a.json"), "--device", "No such drive"]) == 2
    assert "is not in the catalogue" in capsys.readouterr().err


@pytest.mark.parametrize("form", [(), ("--verbose",), ("--json",), ("--junit", "-")])
def test_names_are_left_out_and_told_apart_unless_they_are_asked_for(
    form: tuple[str, ...], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for at, name in enumerate(("vault7.example.org", "vault8.example.org")):
        run = replace(scaled(run_id=str(at)), machines=(machine(hostname=name, cpu=Cpu(model=f"CPU of {name}")),))
        (tmp_path / f"{at}.json").write_text(to_json(run))
    files = [str(tmp_path / "0.json"), str(tmp_path / "1.json")]
    assert main(["compare", *files, *form]) == 0
    hidden = capsys.readouterr().out
    assert "vault" not in hidden
    if form == ("--verbose",):
        assert "CPU of host-1" in hidden and "CPU of host-2" in hidden, "one word each"
        assert main(["compare", *files, *form, "--with-names"]) == 0
        assert "vault7.example.org" in capsys.readouterr().out


# --- a published result, a device


def table(tmp_path: Path, text: str) -> str:
    path = tmp_path / "table.csv"
    path.write_text(text)
    return str(path)


def compared_json(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, Any]:
    status = main(["compare", *arguments, "--json"])
    return status, json.loads(capsys.readouterr().out)


def test_without_repeats_ratios_stay_undecided(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name, rate in (("a", 1.0), ("b", 0.01)):
        point = made.point(1, 1e8 * rate, (1e8 * rate,))
        (tmp_path / f"{name}.json").write_text(to_json(made.run(made.experiment(point))))
    assert main(["compare", str(tmp_path / "a.json"), str(tmp_path / "b.json")]) == 3
    out = capsys.readouterr().out
    assert "cannot tell (no repeats)" in out and "slower" not in out.partition("ratio is of")[0]


@pytest.mark.parametrize("side", ["a", "b"])
def test_what_a_cache_of_the_host_answered_is_no_change(
    side: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    cached = Finding(
        "host_cache", "warning", "storage", "Writes are faster than reads.", {}, "", "storage.iodepth", (0,)
    )
    for name, rate in (("a", 1.0), ("b", 1.5)):
        points = [made.point(load, 1e8 * share, tuple(1e8 * share * k for k in (0.99, 1.0, 1.01)))
                  for load, share in ((1, rate), (2, 1.9))]  # fmt: skip
        run = made.run(made.experiment(*points))
        (tmp_path / f"{name}.json").write_text(to_json(replace(run, findings=(cached,) * (name == side))))
    assert main(["compare", str(tmp_path / "a.json"), str(tmp_path / "b.json"), "--verbose"]) == 0
    out = capsys.readouterr().out
    assert "cannot tell (the host's cache answered)" in out and "faster" not in out.partition("common points")[0]
    assert "1 cannot tell" in out


def test_a_published_table_is_compared_by_what_it_states(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = tmp_path / "run.json"
    run.write_text(to_json(scaled()))
    published = table(tmp_path, "rw,bs,QD,BW (MB/s)\nrandread,4k,1,50\nrandread,4k,4,500\nrandread,128k,8,9\n")
    status, document = compared_json(capsys, published, str(run))
    (side,) = document["sides"]
    found = {change["parameters"]["iodepth"]: change["ratio"]["value"] for change in side["changes"]}
    assert status == 3 and found == pytest.approx({1: 2.0, 4: 0.5})
    assert {change["verdict"] for change in side["changes"]} == {"unknown"} and not side["one_machine"]
    status, document = compared_json(capsys, published, str(run), "--fail-under", "95%")
    assert (status, document["status"]) == (3, "open"), "a single reading proves no loss"


def test_ambiguous_table_is_not_guessed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = tmp_path / "run.json"
    run.write_text(to_json(scaled()))
    assert main(["compare", str(run), table(tmp_path, "rw,bs,BW (MB/s)\nrandread,4k,50\n")]) == 2
    assert capsys.readouterr().err.count("\n") == 1


def test_catalogued_device_meets_nearest_points(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = tmp_path / "run.json"
    run.write_text(to_json(scaled()))
    status, document = compared_json(capsys, str(run), "--device", DEVICE)
    (side,) = document["sides"]
    rated = next(change for change in side["changes"] if change["before"]["unit"] == "operations/s")
    assert status == 0 and rated["before"]["value"] == pytest.approx(1.4e6)
    assert rated["after"]["value"] == pytest.approx(2.6e8 / 4096) and rated["parameters"]["iodepth"] == 8
    assert rated["verdict"] == "slower" and "maker's figure" in rated["stated"]
    assert main(["compare", str(run), "--device", DEVICE]) == 0
    assert "below" in (out := capsys.readouterr().out) and "slower" not in out
    assert main(["compare", str(run), "--device", DEVICE, "--fail-under", "50%"]) == 1


# --- the exit status


@pytest.mark.parametrize(
    ("factor", "limit", "status"),
    [(0.8, None, 1), (0.8, "95%", 1), (0.8, "70%", 0), (1.0, "95%", 0), (1.2, "95%", 0), (0.8, "100%", 1)],
)
def test_the_exit_status_follows_the_limit(
    factor: float, limit: str | None, status: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name, run in (("a", scaled()), ("b", scaled(factor, run_id="b"))):
        (tmp_path / f"{name}.json").write_text(to_json(run))
    given = ["--fail-under", limit] if limit else []
    assert main(["compare", str(tmp_path / "a.json"), str(tmp_path / "b.json"), *given]) == status
    out = capsys.readouterr().out
    assert ("Failed" in out) == (limit is not None and status == 1)


@pytest.mark.parametrize(
    ("before", "after", "says"),
    [
        ("| test | IOPS |\n|---|---|\n| randread 4k | 900 |\n", "| test | iodepth | IOPS |\n|---|---|---|\n"
         "| randread 4k | 1 | 500 |\n", "iodepth not stated against 1"),
        ("| test | iodepth | IOPS |\n|---|---|---|\n| randread 4k | 8 | 900 |\n", "| test | iodepth | jobs | IOPS |\n"
         "|---|---|---|---|\n| randread 4k | 8 | 1 | 500 |\n", ""),
        ("| test | IOPS |\n|---|---|\n| randread 4k | 900 |\n", "| test | IOPS |\n|---|---|\n"
         "| randread 4k | 500 |\n", ""),
    ],
    ids=["only one states its depth", "a depth alone is of one job", "neither states a load"],
)  # fmt: skip
def test_a_load_that_one_side_does_not_state_pairs_nothing(
    before: str, after: str, says: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "a.md").write_text(before)
    (tmp_path / "b.md").write_text(after)
    status = main(["compare", str(tmp_path / "a.md"), str(tmp_path / "b.md")])
    out, err = capsys.readouterr()
    if says:
        assert status == 2 and says in err
    else:
        assert status == 3 and "0.556" in out and "machine unknown" in out and "Q1T1" not in out
