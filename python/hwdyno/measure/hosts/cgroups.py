"""The limits of this process's control groups: processor quota and throttling of block devices."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

DeviceLimits = dict[str, dict[str, float]]
"""Limits by device number (``253:0``): ``read_bytes_s``, ``write_bytes_s``, ``read_operations_s``,
``write_operations_s``."""

# cgroup-v2 (io.max), and blkio-controller (version 1), both of the kernel's admin guide.
_IO_MAX = {"rbps": "read_bytes_s", "wbps": "write_bytes_s", "riops": "read_operations_s", "wiops": "write_operations_s"}
_THROTTLE = {
    "read_bps_device": "read_bytes_s",
    "write_bps_device": "write_bytes_s",
    "read_iops_device": "read_operations_s",
    "write_iops_device": "write_operations_s",
}


def _text(path: Path) -> str:
    try:
        return path.read_text()
    except OSError:
        return ""


def _directories(root: Path, controller: str) -> Iterator[Path]:
    """The directories of this process's groups, the innermost first, up to the hierarchy's mount."""
    hierarchies: dict[str, str] = {}
    for line in _text(root / "proc/self/cgroup").splitlines():
        controllers, _, path = line.partition(":")[2].partition(":")
        for name in controllers.split(","):
            hierarchies[name] = path
    for line in _text(root / "proc/self/mountinfo").splitlines():
        left, _, right = line.partition(" - ")
        fields, filesystem = left.split(), right.split()
        if len(fields) < 5 or len(filesystem) < 3 or filesystem[0] not in {"cgroup", "cgroup2"}:
            continue
        of_version_2 = filesystem[0] == "cgroup2"
        if not of_version_2 and controller not in filesystem[2].split(","):
            continue
        group = hierarchies.get("" if of_version_2 else controller)
        if group is None:
            continue
        # Inside a container the mount shows a part of the hierarchy; the group's name may or may not begin there.
        within = group[len(fields[3]) :] if fields[3] != "/" and group.startswith(fields[3]) else group
        top = root / fields[4].lstrip("/")
        inner = top / within.lstrip("/")
        inner = inner if inner.is_dir() else top
        yield inner
        while inner != top and top in inner.parents:
            inner = inner.parent
            yield inner


def processor_periods(root: Path = Path("/")) -> dict[str, float]:
    """Periods of the processor quota so far, and those in which the quota was exhausted; empty where there is none."""
    found = {"cgroup_periods": 0.0, "cgroup_throttled_periods": 0.0}
    for directory in dict.fromkeys(_directories(root, "cpu")):
        counts = dict(line.split()[:2] for line in _text(directory / "cpu.stat").splitlines() if len(line.split()) > 1)
        found["cgroup_periods"] += float(counts.get("nr_periods", 0))
        found["cgroup_throttled_periods"] += float(counts.get("nr_throttled", 0))
    return found if found["cgroup_periods"] else {}


def io_limits(root: Path = Path("/")) -> DeviceLimits:
    """The least limit on each block device over all of this process's groups."""
    found: DeviceLimits = {}

    def holds(device: str, name: str, text: str) -> None:
        if text.isdigit() and int(text) > 0:
            limits = found.setdefault(device, {})
            limits[name] = min(limits.get(name, float(text)), float(text))

    for directory in dict.fromkeys([*_directories(root, "io"), *_directories(root, "blkio")]):
        for line in _text(directory / "io.max").splitlines():
            device, *limits = line.split()
            for limit in limits:
                key, _, value = limit.partition("=")
                if key in _IO_MAX:
                    holds(device, _IO_MAX[key], value)
        for file, name in _THROTTLE.items():
            for line in _text(directory / f"blkio.throttle.{file}").splitlines():
                device, _, value = line.partition(" ")
                holds(device, name, value.strip())
    return found


def list_limits(storage: dict[str, Any], root: Path = Path("/")) -> list[dict[str, Any]]:
    """The limits on the devices that a surveyed storage passes through, by their names."""
    passed = {str(device.get("name")) for part in ("chain", "disks") for device in storage.get(part) or ()}
    found = []
    for device, limits in sorted(io_limits(root).items()):
        link = root / "sys/dev/block" / device
        name = link.resolve().name if link.exists() else device
        # A group limits whole disks; a partition's operations count as its disk's.
        if name in passed:
            found.append({"device": name, **limits})
    return found
