from __future__ import annotations

from pathlib import Path

import pytest
from hwdyno.measure.hosts.local import Local


def test_counters_come_from_a_recorded_tree(tmp_path: Path) -> None:
    files = {
        "proc/stat": "cpu  100 0 200 600 50 0 10 40 0 0\ncpu0 1 1 1 1 1 1 1 1 1 1\n"
        "intr 77 5 6\nctxt 88\nbtime 1\nsoftirq 99 1 2\n",
        "proc/loadavg": "0.25 0.10 0.05 1/200 4242\n",
        "proc/meminfo": "MemTotal: 2048 kB\nMemAvailable: 1024 kB\n",
        "proc/vmstat": "nr_free_pages 7\npswpin 3\npswpout 4\n",
        "sys/devices/system/cpu/cpu0/cpufreq/scaling_cur_freq": "2000000\n",
        "sys/devices/system/cpu/cpu1/cpufreq/scaling_cur_freq": "3000000\n",
        "sys/class/thermal/thermal_zone0/temp": "41000\n",
        "sys/class/thermal/thermal_zone1/temp": "\n",
    }
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    found = Local(tmp_path).snapshot()
    assert found["cpu_total_s"] == pytest.approx(10.0)
    assert found["cpu_idle_s"] == pytest.approx(6.5)
    assert found["cpu_steal_s"] == pytest.approx(0.4)
    assert found["cpu_interrupt_s"] == pytest.approx(0.1)
    assert (found["interrupts"], found["context_switches"], found["soft_interrupts"]) == (77, 88, 99)
    assert found["load_1m"] == 0.25
    assert found["memory_available_bytes"] == 1 << 20
    assert found["swap_out_bytes"] == found["swap_in_bytes"] / 3 * 4 > 0
    assert found["clock_hz"] == 2.5e9
    assert found["temperature_c"] == 41.0


def test_silent_machine_gives_nothing(tmp_path: Path) -> None:
    assert Local(tmp_path).snapshot() == {}


def test_this_machine_runs_the_idle_kernel_and_names_what_is_wrong() -> None:
    host = Local()
    assert host.run("idle", {"runtime": 0.01})["streams"][0]["operations"] > 0
    with pytest.raises(ValueError, match="no kernel is called 'warp'"):
        host.run("warp", {})
    before, after = host.snapshot(), host.snapshot()
    assert after["cpu_total_s"] >= before["cpu_total_s"]
