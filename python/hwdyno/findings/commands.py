"""What to type to measure a point again: its axes, and of what all points share all that is not usual."""

from __future__ import annotations

from collections.abc import Mapping

from hwdyno.words import ExperimentResult, Parameters, Scalar

# What a command takes by itself where an axis is not given; ``None`` where it is always said, because it
# says which loop is meant, or because the profile or the machine settles it otherwise.
USUAL: dict[str, dict[str, Scalar]] = {
    "storage_blocks": {
        "rw": None,
        "bs": None,
        "iodepth": None,
        "numjobs": 1,
        "ioengine": "io_uring",
        "direct": True,
        "rate": 0.0,
        "rate_bytes": 0,
        "rate_process": "linear",
        "share": "partition",
        "offset": 0,
        "random_distribution": "random",
        "bssplit": "",
        "pattern": "forward",
        "stride": 0,
        "thinktime": 0.0,
        "io_size": 0,
        "fsync": 0,
        "fdatasync": 0,
        "end_fsync": False,
        "drop_cache": False,
        "verify": "none",
    },
    "storage_patterns": {
        "pattern": None,
        "bs": None,
        "numjobs": 1,
        "ioengine": "psync",
        "direct": False,
        "end_fsync": False,
    },
    "storage_metadata": {
        "operation": None,
        "nrfiles": None,
        "filesize": 4096,
        "depth": 0,
        "numjobs": 1,
        "directories": "unique",
        "fsync": "none",
    },
    "memory_bandwidth": {
        "operation": None,
        "mix": "1:0",
        "pattern": "sequential",
        "stride": 0,
        "block": 64,
        "isa": "auto",
        "threads": None,
        "working_set": None,
        "pages": "2m",
        "node": -1,
        "cpu_node": -1,
    },
    "memory_latency": {
        "working_set": None,
        "pages": None,
        "locality": None,
        "local_size": 262144,
        "stride": 64,
        "threads": 1,
        "batch": 0,
        "node": -1,
        "cpu_node": -1,
    },
    "memory_loaded_latency": {
        "operation": None,
        "mix": "1:0",
        "pattern": "sequential",
        "stride": 0,
        "block": 64,
        "isa": "auto",
        "delay": None,
        "threads": None,
        "working_set": None,
        "chase_set": 268435456,
        "locality": "random",
        "pages": "2m",
        "node": -1,
        "cpu_node": -1,
    },
    "memory_core_to_core": {"operation": None, "lines": 1024},
    "compute_flops": {"operation": None, "precision": None, "isa": "auto", "operands": "nonzero", "threads": None},
    "compute_clock": {"threads": None},
    "linpack": {"operation": None, "n": None, "threads": None, "blas": "auto"},
    "network_throughput": {
        "protocol": None,
        "streams": None,
        "direction": None,
        "block": 0,
        "rate": 0,
        "burst": 0,
        "window": 0,
        "congestion": "",
        "nodelay": False,
        "mss": 0,
        "zero_copy": False,
        "skip_rx_copy": False,
        "bytes": 0,
        "blocks": 0,
        "handing": "batched",
        "search": False,
        "server": "",
        "port": 5201,
    },
    "network_latency": {
        "protocol": None,
        "exchange": None,
        "waiting": "sleep",
        "message": 64,
        "in_flight": None,
        "load_streams": 0,
        "direction": "up",
        "congestion": "",
        "server": "",
        "port": 5201,
    },
    "network_ping": {"message": None, "in_flight": None, "rate": 0.0, "server": ""},
    "training_loader": {"workload": "", "accelerator": "", "accelerators": None},
    "training_checkpoint": {"model": None, "scale": None, "ranks": None},
    "training_kv_cache": {
        "model": None,
        "scale": None,
        "users": None,
        "user_kind": "mixed",
        "turns": 50,
        "decode_batch": 32,
        "token_time": 0.0,
        "think": 1.0,
        "memory": 0,
        "capacity": None,
        "transfer_size": 1 << 20,
        "direct": True,
        "drop_cache": True,
        "fsync": True,
        "verify": True,
    },
    "training_vector_search": {
        "index": None,
        "vectors": None,
        "dim": None,
        "distribution": "clustered",
        "degree": 32,
        "build_list": 64,
        "lists": 0,
        "queries": 500,
        "threads": None,
        "search_list": 50,
        "beam": 4,
        "probes": 16,
        "k": 10,
        "ioengine": "io_uring",
        "direct": True,
        "drop_cache": False,
    },
}
QUESTIONS = {
    "compute_clock": "clock",
    "network_ping": "ping",
}
"""The word that says which loop is meant, where no axis does."""
_SIZES = {"bs", "block", "size", "offset", "working_set", "stride", "filesize", "capacity", "memory", "transfer_size"}
INSTEAD = {
    "training_checkpoint": ("model", "checkpoint"),
    "training_kv_cache": ("model", "kv_cache"),
    "training_vector_search": ("index", "vector_search"),
}
"""The parameter that is the value of the option which asks for the kernel, and that option."""
MOST = {
    "iodepth": 1024,
    "numjobs": 1024,
    "threads": 1024,
    "streams": 128,
    "accelerators": 4096,
    "users": 4096,
    "read_threads": 256,
    "bs": 16 << 20,
    "block": 1 << 20,
}
"""The greatest load that a command takes, or, of a size, that is worth a try."""
_TIMES = {"runtime", "ramp_time"}
_HAVE_NO_RAMP = {"memory", "compute"}
_HIDDEN = {"seed", "path", "cpus"}


def told_of(result: ExperimentResult) -> Parameters:
    """Of what all points share, what a command must say; of somebody else's table its axes say all that is known."""
    usual = USUAL.get(result.kernel, {})
    given = {name: result.fixed[name] for name in usual if result.fixed.get(name) is not None}
    if result.kernel == "training_loader" and result.fixed.get("compute") == 0:
        given |= {"compute": 0, "cache": result.fixed.get("cache") or "warm"}  # What the loader itself delivers.
    return {name: value for name, value in given.items() if usual.get(name) is None or value != usual[name]}


def takes(result: ExperimentResult, name: str) -> bool:
    """Whether the experiment's command has this axis."""
    if name in _TIMES:
        return name == "runtime" or result.resource not in _HAVE_NO_RAMP
    if name == "size":
        return result.resource == "storage" and result.kernel != "storage_metadata"
    known = USUAL.get(result.kernel)
    return known is None or name in known or name in result.fixed


def command_of(resource: str, parameters: Mapping[str, Scalar], kernel: str = "") -> str:
    """The command line that measures these parameters."""
    given = dict(parameters)
    share = given.pop("rwmixread", None)
    if share is not None and str(given.get("rw")) in {"rw", "randrw"}:
        given["rw"] = f"{given['rw']}:{share}"
    named, option = INSTEAD.get(kernel, ("", ""))
    if named in given:
        given = {option: given.pop(named), **given}
    told = [f"--{name.replace('_', '-')} {typed(name, v)}" for name, v in given.items() if name not in _HIDDEN]
    return " ".join(filter(None, ["hwdyno", resource or "run", QUESTIONS.get(kernel, ""), *told]))


def typed(name: str, value: Scalar) -> str:
    """A value as people type it: 4k, 1M, true as 1."""
    if isinstance(value, bool):
        return str(int(value))
    if isinstance(value, int | float) and name in _SIZES:
        for suffix, unit in (("G", 1 << 30), ("M", 1 << 20), ("k", 1 << 10)):
            if value >= unit and value % unit == 0:
                return f"{value // unit:.0f}{suffix}"
    if isinstance(value, float) and value == int(value):
        return str(int(value))
    return str(value)
