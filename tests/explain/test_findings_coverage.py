"""The rules on what a storage point covered and kept to, on made points, and control groups on recorded trees."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hwdyno.explain.findings import explain
from hwdyno.explain.findings.coverage import small_region, too_short
from hwdyno.measure.hosts import cgroups
from hwdyno.model.machine import Machine
from hwdyno.model.words import Measurement, Parameters, Run
from made_experiment import made_experiment
from made_point import base, case_of_base, make_run
from simulated_runs import measured
from simulation.host import SimulatedHost, SimulatedMachine

POINT: Parameters = {"rw": "randread", "bs": 4096, "iodepth": 1, "numjobs": 1}


def names(point: Measurement, fixed: Parameters | None = None, **machine: Any) -> dict[str, str]:
    """What is limited of one point, by the rule."""
    host = SimulatedHost(SimulatedMachine())
    storage = {**host.machine.described()["storage"], **machine.get("storage", {})}
    machine = Machine.of_survey({**host.machine.described(), "storage": storage})
    result = made_experiment(
        "storage.sweep", "storage", "?", "iodepth", "storage_blocks", (point,), fixed={"direct": True, **(fixed or {})}
    )
    run = Run("x", "", None, (machine,), "quick", "hwdyno storage", (result,))
    return {finding.rule: finding.says for finding in explain(run).findings}


def one(**more: Any) -> Measurement:
    return replace(measured(SimulatedHost(SimulatedMachine()), POINT), **more)


def test_sound_point_has_no_such_note() -> None:
    assert not set(names(one())) & {
        *(
            "cpu_limited",
            "io_limit",
            "compressed_file",
            "too_short",
            "small_region",
            "shared_blocks",
            "rate_not_reached",
        )
    }


def test_spent_quota_shows_its_share() -> None:
    assert "exhausted in 60% of the periods" in names(one(conditions={"cgroup_throttled": 0.6}))["cpu_limited"]
    assert "cpu_limited" not in names(one(conditions={"cgroup_throttled": 0.01}))


def test_compressed_extents_are_not_a_cache() -> None:
    point = one(details={"extent_encoded_bytes": 1 << 30, "region_bytes": 1 << 30})
    counters = {**point.counters, "device_read_bytes": 0.01 * point.bytes, "process_read_bytes": 0.01 * point.bytes}
    findings = names(replace(point, counters=counters))
    assert "stored compressed" in findings["compressed_file"] and "page_cache" not in findings


def test_too_few_and_too_small() -> None:
    assert "only 12 operations" in names(one(operations=12))["too_short"]
    short = too_short(case_of_base(operations=10, elapsed_s=5.0))
    assert short is not None and "takes at least 100." in short.says and "--runtime 100 " in f"{short.advice} "
    small = one(details={"region_bytes": 1 << 20})
    assert "fits many drive, controller and hypervisor caches" in names(small)["small_region"]
    assert "small_region" not in names(small, {"direct": False})


def test_jobs_on_the_same_blocks_have_their_overlap_told() -> None:
    point = one(details={"region_bytes": 1 << 30}, parameters={**POINT, "numjobs": 2}, repeats=1, bytes=1 << 30)
    # Each of two jobs covers half: a quarter of the blocks twice, of three quarters visited.
    assert "about 25% of the visits" in names(point, {"share": "whole"})["shared_blocks"]
    assert "shared_blocks" not in names(point, {"share": "partition"})
    for visited, again in ((0, "0%"), (4 << 30, "50%")):
        sentence = names(replace(point, bytes=visited), {"share": "whole"})["shared_blocks"]
        assert f"about {again} of the visits" in sentence


@pytest.mark.parametrize(("region", "passes", "repeats", "named"), [
    (256 << 20, 4, 1, False), ((256 << 20) - 4096, 4, 1, True), (1, 4, 1, True), (0, 4, 1, False),
    (1 << 20, 1.99, 1, False), (1 << 20, 2, 1, True), (1 << 20, 1.99, 2, False), (1 << 20, 2, 2, True),
])  # fmt: skip
def test_small_region_is_passed_twice_in_each_repeat(region: int, passes: float, repeats: int, named: bool) -> None:
    point = {"parameters": {**base().parameters, "size": 0}, "details": {"region_bytes": region}, "repeats": repeats}
    assert (small_region(case_of_base(**point, bytes=round(passes * repeats * region))) is not None) == named


@pytest.mark.parametrize(("over", "shortest", "parameters", "says", "advice"), [
    (1.0499, 0.5, {"pattern": "read"}, "", ""),
    (1.0501, 0.5, {"pattern": "read"}, "all the time: one ended after 50% of it. The sum", "--rw read "),
    (1.1, 1.0, {"pattern": "randread"}, "all the time. The sum", "--rw randread "),
    (1.1, None, {"pattern": "randwrite"}, "all the time. The sum", "--rw randwrite "),
    (1.1, None, {"pattern": "randrw"}, "all the time. The sum", "--rw randrw "),
    (1.1, 0.5, {"rw": "read"}, "", ""), (1.1, 0.5, {"rw": "read", "time_based": True}, "", ""),
    (1.1, 0.5, {"rw": "read", "time_based": False}, "one ended after 50% of it.", "--time-based 1 "),
])  # fmt: skip
def test_jobs_of_unequal_duration(
    over: float, shortest: float | None, parameters: Parameters, says: str, advice: str
) -> None:
    details = {"children_sum_over_parent": over, "children_shortest_share": shortest}
    point = base(parameters={"bs": 4096, "numjobs": 3, **parameters}, details=details)
    found = [finding for finding in explain(make_run(point)).findings if finding.rule == "unequal_jobs"]
    assert len(found) == bool(says)
    for unequal in found:
        assert says in unequal.says and advice in unequal.advice and "--runtime 10" in unequal.advice


def write(root: Path, files: dict[str, str]) -> None:
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)


def test_control_groups_of_version_2_are_read_up_to_the_top(tmp_path: Path) -> None:
    write(
        tmp_path,
        {
            "proc/self/cgroup": "0::/a.slice/b.service\n",
            "proc/self/mountinfo": "30 1 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n",
            "sys/fs/cgroup/a.slice/io.max": "8:0 rbps=1000000 wbps=max riops=200 wiops=max\n",
            "sys/fs/cgroup/a.slice/cpu.stat": "usage_usec 1\nnr_periods 10\nnr_throttled 4\nthrottled_usec 5\n",
            "sys/fs/cgroup/a.slice/b.service/io.max": "8:0 riops=500\n8:16 rbps=max wbps=7\n",
            "sys/fs/cgroup/a.slice/b.service/cpu.stat": "nr_periods 0\nnr_throttled 0\n",
        },
    )
    assert cgroups.io_limits(tmp_path) == {
        "8:0": {"read_bytes_s": 1e6, "read_operations_s": 200.0},
        "8:16": {"write_bytes_s": 7.0},
    }
    assert cgroups.processor_periods(tmp_path) == {"cgroup_periods": 10.0, "cgroup_throttled_periods": 4.0}
    link = tmp_path / "sys/dev/block/8:0"
    (tmp_path / "sys/block/sda").mkdir(parents=True)
    link.parent.mkdir(parents=True)
    link.symlink_to(tmp_path / "sys/block/sda")
    storage = {"chain": [{"name": "sda1"}], "disks": [{"name": "sda"}]}
    assert [limit["device"] for limit in cgroups.list_limits(storage, tmp_path)] == ["sda"]


def test_version_1_control_groups_in_container(tmp_path: Path) -> None:
    write(
        tmp_path,
        {
            "proc/self/cgroup": "7:blkio:/docker/abc\n1:cpu,cpuacct:/docker/abc\n",
            "proc/self/mountinfo": "31 1 0:29 /docker/abc /sys/fs/cgroup/cpu ro - cgroup cgroup rw,cpu,cpuacct\n"
            "32 1 0:30 /docker/abc /sys/fs/cgroup/blkio ro - cgroup cgroup rw,blkio\n",
            "sys/fs/cgroup/cpu/cpu.stat": "nr_periods 8\nnr_throttled 8\nthrottled_time 9\n",
            "sys/fs/cgroup/blkio/blkio.throttle.write_bps_device": "8:0 5000000\n",
        },
    )
    assert cgroups.io_limits(tmp_path) == {"8:0": {"write_bytes_s": 5e6}}
    assert cgroups.processor_periods(tmp_path)["cgroup_throttled_periods"] == 8.0
    assert cgroups.io_limits(tmp_path / "nothing") == {} == cgroups.processor_periods(tmp_path / "nothing")
