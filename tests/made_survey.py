"""The survey of a machine that does not exist, for made Runs."""

from __future__ import annotations

from typing import Any

MACHINE: dict[str, Any] = {
    "hostname": "bench-07",
    "os": {"kernel": "6.8.0", "distribution": "Debian GNU/Linux 13", "architecture": "x86_64"},
    "cpu": {
        "model": "Example CPU 9000",
        "vendor": "Example",
        "sockets": 1,
        "cores": 8,
        "threads": 16,
        "clock_hz": {"measured": 3.61e9, "base": 2.9e9, "max": None},
        "caches": [{"level": 1, "type": "data", "size_bytes": 49152, "shared_threads": 2, "instances": 8}],
        "isa": ["sse4_2", "avx2", "avx512f"],
        "numa_nodes": [{"node": 0, "cpus": list(range(16)), "memory_bytes": 64 << 30}],
    },
    "memory": {"total_bytes": 64 << 30, "available_bytes": 51 << 30, "swap_total_bytes": 0},
    "storage": {
        "path": "/srv/data",
        "mount_point": "/srv",
        "filesystem": "ext4",
        "options": ["rw", "relatime"],
        "source": "/dev/nvme0n1p2",
        "size_bytes": 10**12,
        "free_bytes": 6 * 10**11,
        "chain": [
            {"name": "nvme0n1p2", "kind": "partition", "detail": ""},
            {"name": "nvme0n1", "kind": "disk", "detail": "nvme"},
        ],
        "disks": [
            {
                "name": "nvme0n1",
                "kind": "nvme",
                "rotational": False,
                "model": "Example SSD 1TB",
                "serial": None,
                "size_bytes": 10**12,
                "firmware": "2B4QFXO7",
                "link": {
                    "type": "pcie",
                    "generation": 3,
                    "lanes": 4,
                    "generation_max": 4,
                    "lanes_max": 4,
                    "bits_s": 31.5e9,
                    "bits_s_max": 63.0e9,
                },
                "queue": {
                    "scheduler": "none",
                    "nr_requests": 1023,
                    "io_poll": False,
                    "write_cache": "write back",
                    "nr_hw_queues": 16,
                },
            }
        ],
    },
    "nics": [{"name": "eth0", "driver": "e1000e", "bits_s": 10**9, "mtu": 1500, "up": True}],
    "gpus": [],
    "hypervisor": None,
    "container": {"kind": None, "cpu_limit": None, "cpuset": [], "memory_limit_bytes": None},
    "conditions": {
        "load_1m": 0.12,
        "governor": "performance",
        "turbo": True,
        "steal_share": 0.0,
        "temperature_c": None,
    },
    "unknown": {
        "cpu.clock_hz.max": "no cpufreq driver is loaded",
        "conditions.temperature_c": "no sensor is readable",
        "storage.disks.0.serial": "only the administrator may read it",
    },
}
