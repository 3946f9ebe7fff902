"""Writes a point's parameters as fio job options."""

from __future__ import annotations

from hwdyno.model.axes import FIELD, is_mixed
from hwdyno.model.words import Parameters, Scalar

_SECONDS = {"runtime", "ramp_time", "startdelay", "steadystate_duration", "steadystate_ramp_time"}
_MICROSECONDS = {"thinktime", "thinktime_spin", "latency_target", "latency_window", "flow_sleep"}
_DEFAULTS: Parameters = {
    "random_distribution": "random",
    "rate_process": "linear",
    "verify": "none",
    "thinktime_blocks": 1,
    "cpus": "[]",
    "mem": "small",
    "file_service_type": "roundrobin",
    "loops": 1,
    "steadystate_duration": 10.0,
    "steadystate_interval": 1.0,
    "rate_cycle": 1.0,
    "latency_percentile": 100.0,
    "rw_sequencer": "sequential",
    "sync": "none",
    "replay_time_scale": 1.0,
}
_OURS = {"rate": "rate_iops", "rate_bytes": "rate", "seed": "randseed"}
_NOT_FIO = {"job", "share", "path", "interval_s", "generation", "verify_seed", "pattern", "stride", "files", "log"}
_NOT_FIO |= {"steadystate_interval", "positions_apart", "gap", "random_every"}
# fio's key for a pair of read and write values, and our two parameters.
_PAIRS = {
    "rate": ("rate_read", "rate_write"),
    "rate_iops": ("rate_iops_read", "rate_iops_write"),
    "rate_min": ("rate_min_read", "rate_min_write"),
    "rate_iops_min": ("rate_iops_min_read", "rate_iops_min_write"),
    "blockalign": ("blockalign", "blockalign_write"),
    "percentage_random": ("sequential_read", "sequential_write"),
}
_PAIRED = {name for pair in _PAIRS.values() for name in pair}


def options_from_point(parameters: Parameters) -> dict[str, str]:
    """fio's options for a point: those that differ from fio's defaults, as text."""
    found = {}
    for name, value in parameters.items():
        if name in _NOT_FIO | _PAIRED or value is None or (value in ("", 0, 0.0, False) and name != "direct"):
            continue
        if _DEFAULTS.get(name) == value or (name == "rwmixread" and not is_mixed(FIELD["rw"], parameters)):
            continue
        found[_OURS.get(name, name)] = _text(name, value)
    for name, pair in _PAIRS.items():
        if any(parameters.get(parameter) for parameter in pair):
            found[name] = _both(name, *(int(parameters.get(parameter) or 0) for parameter in pair))
    if (by := parameters.get("gap")) or (by := parameters.get("random_every")):
        found["rw"] = f"{parameters.get('rw')}:{by}"
    return found


def _text(name: str, value: Scalar) -> str:
    if isinstance(value, bool):
        return str(int(value))
    if name in _SECONDS:
        return f"{round(float(value or 0) * 1e3)}ms"
    if name in _MICROSECONDS:
        return f"{round(float(value or 0) * 1e6)}"
    if name == "rate_cycle":
        return f"{round(float(value or 0) * 1e3)}"
    if name == "mem":
        return "mmaphuge"
    if name == "buffer_pattern":
        return f"0x{value}"
    if name == "replay_time_scale":
        return f"{round(100 / float(value or 1))}"
    return str(round(float(value or 0))) if name in _OURS else str(value)


def _both(name: str, read: int, write: int) -> str:
    if name == "percentage_random":
        return f"{100 - read},{100 - write}"
    return f"{read or ''},{write or ''}"
