"""Results folders as mlpstorage writes them: the layouts of 1.0, 2.0 and 3.0, with figures that keep every rule.

Names, keys and types of 3.0 are those of mlcommons/storage_results_v3.0 (Alluxio, SAMSUNG, TTA, HPE, FarmGPU); the
stamp ``provenance.json`` came after it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

MIB, GIB = 2**20, 2**30
RECORD = 146_600_628
FILES = 14_000
"""unet3d: 14,000 samples are 500 steps of 4 accelerators with a batch of 7."""
STARTS = [f"20260701_1{hour}0000" for hour in range(6)]
TREE = "closed/acme/results/sys-1"
Document = dict[str, Any]


def write(root: Path, name: str, document: Document | str) -> Path:
    path = root / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(document if isinstance(document, str) else json.dumps(document))
    return path


def changed(document: Document, changes: Mapping[str, Any]) -> Document:
    """The document with other values, or without some (``None``), under dotted paths."""
    copy: Document = json.loads(json.dumps(document))
    for path, value in changes.items():
        *above, last = path.split("/")
        table = copy
        for name in above:
            table = table.setdefault(name, {})
        if value is None:
            table.pop(last, None)
        else:
            table[last] = value
    return copy


def training_summary(start: str = STARTS[0], au: float = 93.5) -> Document:
    day, time = start.split("_")
    # 4 accelerators, 7 samples in 0.162 s; the first step of an epoch is not in AU.
    samples_s = 0.99 * au / 100 * 4 * 7 / 0.162
    hour = f"{day[:4]}-{day[4:6]}-{day[6:]}T{time[:2]}"
    return {
        "start": f"{hour}:00:00.000001", "end": f"{hour}:50:00.000001", "num_accelerators": 4, "num_hosts": 2,
        "hostname": "node1", "num_files_train": FILES, "num_files_eval": 0, "num_samples_per_file": 1, "epochs": 5,
        "host_memory_GB": [376.0, 0.0], "host_cpu_count": [64, 64],
        "metric": {
            "train_au_percentage": [au] * 5, "train_au_mean_percentage": au, "train_au_stdev_percentage": 0.0,
            "train_au_meet_expectation": "success" if au >= 90 else "fail",
            "train_throughput_samples_per_second": [samples_s] * 5,
            "train_throughput_mean_samples_per_second": samples_s,
            "train_io_mean_MB_per_second": samples_s * RECORD / MIB, "train_io_stdev_MB_per_second": 0.0,
        },
    }  # fmt: skip


HARDWARE: Document = {"hostname": "node1", "disks": [{"device_name": "nvme0n1", "reads_completed": 42}], "network": []}


def training_metadata(command: str = "run") -> Document:
    # What the command line sets is text; datasize calculates numbers.
    files = FILES if command == "datasize" else str(FILES)
    return {
        "benchmark_type": "training", "model": "unet3d", "command": command, "accelerator": "b200",
        "num_processes": 4, "verification": "CLOSED",
        "override_parameters": {
            "reader.read_threads": "8", "dataset.num_files_train": files, "dataset.num_subfolders_train": "0",
            "dataset.skip_listing": "True", "dataset.listing_validation_interval": "1000",
            "dataset.data_folder": "/data/unet3d", "dataset.total_disk_bytes": FILES * RECORD,
        },
        "parameters": {
            "model": {"name": "unet3d"}, "metric": {"au": 0.9}, "train": {"epochs": 5, "computation_time": 0.162},
            "dataset": {"num_files_train": files, "num_samples_per_file": 1, "record_length_bytes": RECORD},
            "reader": {"batch_size": 7, "read_threads": "8"},
        },
        "system_info": {"total_memory_bytes": 376 * GIB, "num_hosts": 2, "hosts": [HARDWARE] * 2},
        "cluster_snapshots": {"start": {"hosts": [HARDWARE] * 2}, "end": {"hosts": [HARDWARE] * 2}},
        "args": {
            "data_dir": "/data", "results_dir": "/results", "hosts": ["node1:2", "node2:2"], "mode": "closed",
            "systemname": "sys-1", "data_access_protocol": "file",
        },
    }  # fmt: skip


SEPARATE: Document = {"version": 1, "method": "link_exdev", "same_filesystem": False}
IMAGE = "md5-tree-v2:b64876ed433977560641221038f645db\n"
STAMP: Document = {"schema": "mlps-run-provenance/1", "rules_edition": "3.0", "layout_version": 3}


def training_tree(
    root: Path,
    summary: Mapping[str, Any] | None = None,
    metadata: Mapping[str, Any] | None = None,
    separation: Mapping[str, Any] | None = None,
    runs: int = 6,
) -> Path:
    """A submission of unet3d by 3.0: datasize, datagen, a warm-up and five runs."""
    above = f"{TREE}/training/unet3d"
    for command in ("datasize", "datagen"):
        name = f"{above}/{command}/20260701_080000/training_20260701_080000_metadata.json"
        write(root, name, training_metadata(command))
    for at, start in enumerate(STARTS[:runs]):
        leaf = f"{above}/run/{start}"
        # The first one warms up.
        made = training_summary(start, 40.0 if at == 0 and runs == len(STARTS) else 93.5)
        write(root, f"{leaf}/summary.json", changed(made, summary or {}))
        write(root, f"{leaf}/training_{start}_metadata.json", changed(training_metadata(), metadata or {}))
        write(root, f"{leaf}/provenance.json", STAMP)
        write(root, f"{leaf}/.mlps-code-image", IMAGE)
        write(root, f"{leaf}/fs_separation.json", changed(SEPARATE, separation or {}))
        write(root, f"{leaf}/training_run.stdout.log", "[OUTPUT] a log\n")
    return root


def checkpoint_tree(
    root: Path,
    summary: Mapping[str, Any] | None = None,
    metadata: Mapping[str, Any] | None = None,
    separation: Mapping[str, Any] | None = None,
) -> Path:
    """A submission of llama3-8b's checkpoints by 3.0, written and read by two commands; it has no stamp."""
    for kind, start, other in (("save", "20260702_100000", "10:20:00"), ("load", "20260702_102010", "10:40:00")):
        leaf = f"{TREE}/checkpointing/llama3-8b/{start}"
        counts = (10, 0) if kind == "save" else (0, 10)
        made: Document = {
            "start": f"2026-07-02T{start[9:11]}:{start[11:13]}:{start[13:]}", "end": f"2026-07-02T{other}",
            "num_accelerators": 8, "num_hosts": 1, "host_memory_GB": [251.0],
            "metric": {
                f"{kind}_checkpoint_io_mean_GB_per_second": 12.5, f"{kind}_checkpoint_io_stdev_GB_per_second": 0.1,
                f"{kind}_checkpoint_duration_mean_seconds": 8.4, "checkpoint_size_GB": 105.0,
            },
        }  # fmt: skip
        meta: Document = {
            "benchmark_type": "checkpointing", "model": "llama3-8b", "command": "run", "accelerator": None,
            "invocation_start_time": made["start"],
            "override_parameters": {
                "checkpoint.num_checkpoints_read": counts[1], "checkpoint.num_checkpoints_write": counts[0],
                "checkpoint.checkpoint_folder": "/ckpt/llama3-8b",
            },
            "parameters": {"checkpoint": {"fsync": True, "mode": "default"}, "model": {"name": "llama_8b"}},
            "args": {
                "num_checkpoints_write": counts[0], "num_checkpoints_read": counts[1], "checkpoint_folder": "/ckpt",
                "results_dir": "/results", "data_access_protocol": "file",
            },
        }  # fmt: skip
        write(root, f"{leaf}/summary.json", changed(made, summary or {}))
        write(root, f"{leaf}/checkpointing_{start}_metadata.json", changed(meta, metadata or {}))
        write(root, f"{leaf}/.mlps-code-image", IMAGE)
        write(root, f"{leaf}/fs_separation.json", changed(SEPARATE, separation or {}))
    return root


def vector_tree(root: Path, summary: Mapping[str, Any] | None = None, verdict: Mapping[str, Any] | None = None) -> Path:
    """Five runs of an index of Milvus by 3.0, and its loading."""
    above = f"{TREE}/vector_database/milvus/HNSW"
    load = f"{above}/datagen/20260703_080000"
    write(root, f"{load}/vector_database_20260703_080000_metadata.json", {"command": "datagen"})
    write(root, f"{load}/summary.json", {"inserted_vectors": 1_000_000, "dimension": 1536})
    for start in STARTS[:5]:
        made: Document = {
            "throughput_qps": 1250.5, "mean_latency_ms": 12.3, "p95_latency_ms": 18.7, "p99_latency_ms": 25.4,
            "p999_latency_ms": 41.2, "recall": {"mean_recall": 0.982}, "database": {"database": "milvus"},
            "index_type": "HNSW", "num_vectors": 1_000_000, "dimension": 1536,
        }  # fmt: skip
        exact: Document = {"result": "valid", "flat_setup": {"ok": True, "coverage": 1.0}}
        leaf = f"{above}/run/{start}"
        write(root, f"{leaf}/summary.json", changed(made, summary or {}))
        write(root, f"{leaf}/vector_database_{start}_metadata.json", {"benchmark_type": "vector_database"})
        write(root, f"{leaf}/result_verdict.json", changed(exact, verdict or {}))
    return root


def native_vector_tree(
    root: Path, metadata: Mapping[str, Any] | None = None, verdict: Mapping[str, Any] | None = None
) -> Path:
    """Five runs of an index of Milvus by 3.0 whose summaries were not made: the benchmark's own statistics alone."""
    above = f"{TREE}/vector_database/milvus/DISKANN"
    load = {"vdb_engine": "milvus", "vdb_index": "DISKANN", "dimension": 1536, "num_vectors": 1_000_000}
    name = f"{above}/datagen/20260703_080000/vector_database_20260703_080000_metadata.json"
    write(root, name, {"benchmark_type": "vector_database", "command": "datagen", "args": load})
    for start in STARTS[:5]:
        leaf = f"{above}/run/{start}"
        recall = {"recall_at_k": 0.98, "mean_recall": 0.98, "k": 10, "per_query_recall": [0.9, 1.0]}
        made: Document = {
            "total_queries": 8522, "total_time_seconds": 60.003, "throughput_qps": 142.026, "mean_latency_ms": 6.972,
            "p95_latency_ms": 8.01, "p99_latency_ms": 9.259, "p999_latency_ms": 13.322, "recall": recall,
        }  # fmt: skip
        meta: Document = {
            "benchmark_type": "vector_database", "model": "milvus_DISKANN", "command": "run", "parameters": {},
            "override_parameters": {},
            "args": {"mode": "closed", "vdb_engine": "milvus", "vdb_index": "DISKANN", "vector_dim": 1536},
        }  # fmt: skip
        exact: Document = {
            "result": "valid", "flat_setup": {"ok": True, "coverage": 1.0, "total_vectors": 1_000_000},
        }  # fmt: skip
        write(root, f"{leaf}/statistics.json", made)
        write(root, f"{leaf}/recall_stats.json", recall)
        write(root, f"{leaf}/config.json", {"vector_dim": 1536, "index_type": "DISKANN", "runtime_seconds": 60})
        write(root, f"{leaf}/vector_database_{start}_metadata.json", changed(meta, metadata or {}))
        write(root, f"{leaf}/result_verdict.json", changed(exact, verdict or {}))
    return root


def kv_command(option: str, trial: int, change: str = "") -> str:
    """A command of an option with what CLOSED sets for it, and options after it."""
    users, memory, allocations = {"1": (200, 0, 16), "2": (100, 4, 16), "3": (70, 0, 4)}[option]
    model = "llama3.1-70b-instruct" if option == "3" else "llama3.1-8b"
    wrapper = f"mlperf_wrapper.py --rank-output-base /results/option_{option}/trial_{trial} --seed-base 42"
    return (
        f"mpirun -n 2 -host node1:2 python3 {wrapper} --config config.yaml --model {model} --num-users {users} "
        f"--duration 300 --gpu-mem-gb 0 --cpu-mem-gb {memory} --max-concurrent-allocs {allocations} "
        f"--generation-mode none{change}"
    )


def kv_commands(option: str, change: str) -> Document:
    """Metadata of one command alone, with options after those that CLOSED sets."""
    return {"command_output_files": [{"command": kv_command(option, 0, change)}]}


def kv_tree(
    root: Path,
    summary: Mapping[str, Any] | None = None,
    metadata: Mapping[str, Any] | None = None,
    name: str = "summary.json",
) -> Path:
    """A run of the KV cache by 3.0 with its three options, whose metadata has defaults that no command takes over."""
    option = {
        "aggregated_read_bandwidth_gbps": 42.0, "aggregated_write_bandwidth_gbps": 5.0, "rank_count": 2,
        "aggregated_storage_throughput_tokens_per_sec": 109.0, "aggregated_avg_throughput_tokens_per_sec": 10_900.0,
        "aggregated_p95_latency_ms": 2_168.0, "aggregated_device_read_p95_ms": 20.1,
        "aggregated_device_write_p95_ms": 4.0, "trial_count": 3, "partial_failure": False, "missing_files": [],
        "cpu_tier_ranks": [],
    }  # fmt: skip
    made = {
        "total_ranks": 2,
        "host_count": 1,
        "trials_per_option": 3,
        "options": dict.fromkeys(("1", "2", "3"), option),
    }
    meta = {
        "benchmark_type": "kv_cache", "override_parameters": {},
        "command_output_files": [{"command": kv_command(key, trial)} for key in "123" for trial in range(3)],
        "args": {
            "mode": "closed", "seed": 42, "trials": 3, "inter_option_delay": 90, "enable_autoscaling": True,
            "enable_rag": True, "duration": 60, "gpu_mem_gb": 16.0, "cpu_mem_gb": 32.0,
        },
    }  # fmt: skip
    leaf = f"{TREE}/kv_cache/llama3.1-8b/run/{STARTS[0]}"
    write(root, f"{leaf}/{name}", changed(made, summary or {}))
    write(root, f"{leaf}/kv_cache_{STARTS[0]}_metadata.json", changed(meta, metadata or {}))
    return root


def tree_of_1_0(root: Path, runs: int = 5, overrides: str = "") -> Path:
    """Results of 1.0: DLIO's configuration beside each summary, and no metadata."""
    made = training_summary(au=92.0)
    for at in range(1, runs + 1):
        leaf = f"Closed/acme/results/sys-1/unet3d-h100/run{at}"
        write(root, f"{leaf}/summary.json", made)
        lines = ["workload=unet3d_h100", "++workload.workflow.train=True", "++workload.reader.read_threads=4"]
        lines += [overrides] if overrides else []
        write(root, f"{leaf}/configs/overrides.yaml", "".join(f"- {line}\n" for line in lines))
        configuration = {
            "workload": {
                "model": "unet3d", "reader": {"batch_size": 7}, "metric": {"au": 0.9},
                "dataset": {"record_length": RECORD, "num_files_train": FILES},
            }
        }  # fmt: skip
        write(root, f"{leaf}/configs/config.yaml", json.dumps(configuration))
    return root
