"""Training on a simulated object store: what limits it is named, and a clean one is not accused."""

from __future__ import annotations

import random
import re
from dataclasses import replace
from typing import Any

import pytest
from here import sample
from hwdyno.explain.findings import explain
from hwdyno.measure.measurement import make_measurement
from hwdyno.model.kernels import INFERENCE_KV_CACHE, OBJECT_REQUESTS, TRAINING_CHECKPOINT, TRAINING_LOADER
from hwdyno.model.words import ExperimentResult, Finding, Measurement, Parameters, Run
from made_experiment import made_experiment
from made_training import point
from simulation.object_store import SUITE, SimulatedStore
from simulation.training_store import SimulatedTraining
from style import find_faults

RECORD, BATCH, READERS = 20_000_000, 7, 4
PLACE = {"path": "s3://bench/data", "endpoint": "http://10.0.0.2:9000"}
COMMAND = "hwdyno training --workload unet3d --path s3://bench/data --endpoint http://10.0.0.2:9000"
ACCUSES = {"object_link", "object_repeated", "training_plain", "physical_ceiling", "training_law", "faults",
           "object_tls", "client_bound", "training_client_bound"}  # fmt: skip


def measured(store: SimulatedStore, need_bytes_s: float) -> Run:
    """1, 2 and 4 accelerators of that need, and plain GETs with as many requests as their readers."""
    host = SimulatedTraining(store)
    loader: Parameters = {
        **PLACE, "workload": "unet3d", "accelerator": "h100", "record_bytes": RECORD, "batch_size": BATCH,
        "read_threads": READERS, "compute": RECORD * BATCH / need_bytes_s, "samples_per_file": 1, "au_pass": 0.9,
    }  # fmt: skip
    gets: Parameters = {
        "operation": "get", "object_size": RECORD, "bucket": "bench", "endpoint": PLACE["endpoint"],
        "client_threads": 16,
    }  # fmt: skip
    counts = (1, 2, 4)
    experiments = (
        _measure(host, "training.unet3d.h100", TRAINING_LOADER, "accelerators", counts, loader),
        _measure(host, "object.pattern.unet3d", OBJECT_REQUESTS, "concurrency", [READERS * n for n in counts], gets),
    )
    return explain(Run("id", "2026-01-01T00:00:00+00:00", None, (host.survey(),), "quick", COMMAND, experiments))


def _measure(
    host: SimulatedTraining, name: str, kernel: str, load: str, values: object, fixed: Parameters
) -> ExperimentResult:
    points = []
    for value in values if isinstance(values, list | tuple) else ():
        before = host.snapshot()
        readings = [host.run(kernel, {**fixed, load: value})]
        points.append(make_measurement({load: value}, readings, host.kernels()[kernel], [(before, host.snapshot())]))
    return made_experiment(name, name.partition(".")[0], "?", load, kernel, tuple(points), fixed=fixed)


def of_loader(run: Run) -> dict[str, Finding]:
    return {found.rule: found for found in run.findings if found.experiment.startswith("training.")}


def serves_bytes_s(store: SimulatedStore) -> float:
    """What a store serves the readers of 4 accelerators, about."""
    connection = min(store.connection_bytes_s, store.window_bytes / store.rtt_s)
    # Encryption takes what it leaves of the processors' time, so a store by TLS serves no more than they encrypt.
    tls_bytes_s = min(16, store.processors) * store.tls_bytes_s or store.bytes_s
    return min(tls_bytes_s, store.bytes_s, 0.985 * store.link_bytes_s, 4 * READERS * connection)


def planted(seed: int) -> dict[str, tuple[SimulatedStore, float, set[str], str]]:
    """A store drawn by ``seed`` with each fault; the share that 4 accelerators need of it, the rules, the limit."""
    draw = random.Random(seed + 20_000)
    clean = SimulatedStore.random(seed)
    narrow = replace(clean, link_bits_s=1e9, connection_bytes_s=5e7, window_bytes=1e9, cpu_s_byte=1e-10)
    return {
        "clean": (clean, draw.uniform(0.2, 0.8), set(), "No limit was reached"),
        "slow store": (clean, draw.uniform(1.5, 3.0), set(), "the store or the path to it"),
        "link": (narrow, draw.uniform(1.5, 3.0), {"object_link"}, "eth0's link"),
        "clean by TLS": (
            replace(clean, tls_bytes_s=draw.uniform(0.5, 2) * clean.bytes_s),
            draw.uniform(0.2, 0.8),
            set(),
            "No limit was reached",
        ),
        "TLS": (
            replace(clean, tls_bytes_s=draw.uniform(0.02, 0.1) * clean.bytes_s / 16, cpu_s_byte=1e-11, cpu_s=1e-9),
            draw.uniform(1.5, 3.0),
            {"object_tls"},
            "TLS",
        ),
        "refusals": (replace(clean, repeats=draw.uniform(0.02, 0.3)), 0.5, {"object_repeated"}, "No limit"),
        "loader": (replace(clean, loader=draw.uniform(0.3, 0.7)), 3.0, {"training_plain"}, "Limit not identified"),
    }


def test_random_stores_show_what_limits_training() -> None:
    kinds = list(planted(0))
    for seed in range(sample(15, 200)):
        for kind in {"clean", kinds[seed % len(kinds)]}:
            store, share, rules, limit = planted(seed)[kind]
            found = of_loader(measured(store, share * serves_bytes_s(store) / 4))
            assert set(found) & ACCUSES == rules, (seed, kind, [finding.says for finding in found.values()])
            assert limit in found["training_capacity"].says, (seed, kind, found["training_capacity"].says)


@pytest.mark.parametrize("kind", list(planted(0)))
def test_findings_on_a_store_have_its_words_and_its_commands(kind: str) -> None:
    store, share, _, _ = planted(7)[kind]
    for finding in of_loader(measured(store, share * serves_bytes_s(store) / 4)).values():
        assert not find_faults(finding.says) + find_faults(finding.advice), finding.says
        words = finding.says + re.sub(r"hwdyno training .*", "", finding.advice)
        assert not re.search(r"page cache|O_DIRECT|direct I/O|thread|dmesg|drive|files", words), words
        for line in re.findall(r"hwdyno training .*", finding.advice):
            assert "--path s3://bench/data" in line and "--endpoint http://10.0.0.2:9000" in line, line


LINK = {"loopback": False, "interface": "eth0", "interface_bits_s": 1e10, "interface_virtual": False,
        "interface_mtu_bytes": 1500, "interface_driver": "mlx5_core"}  # fmt: skip
FULL = 1.25e9 * 1460 / 1538


def _of_kernel(kernel: str, load: str, details: dict[str, object], **figures: Any) -> dict[str, Finding]:
    made: Measurement = replace(point(1, 0.9), parameters={load: 4}, details={**LINK, **details}, **figures)
    resource = kernel.partition("_")[0]
    result = made_experiment(f"{resource}.x", resource, "?", load, kernel, (made,), fixed=PLACE)
    run = explain(Run("id", "", "", (SimulatedTraining().survey(),), "quick", COMMAND, (result,)))
    return {found.rule: found for found in run.findings}


@pytest.mark.parametrize(
    ("kernel", "load", "names"),
    [
        (TRAINING_CHECKPOINT, "ranks", ("save_bytes_s", "load_bytes_s")),
        (INFERENCE_KV_CACHE, "users", ("read_bytes_s", "write_bytes_s")),
    ],
)
def test_a_full_link_is_named_by_either_direction(kernel: str, load: str, names: tuple[str, str]) -> None:
    for full, other in (names, names[::-1]):
        found = _of_kernel(kernel, load, {full: 0.95 * FULL, other: 0.1 * FULL})
        assert "The link is the limit" in found["object_link"].says and "95% of" in found["object_link"].says
        assert "object_link" not in _of_kernel(kernel, load, {full: 0.85 * FULL, other: 0.85 * FULL})


@pytest.mark.parametrize(("kernel", "load"), [(TRAINING_CHECKPOINT, "ranks"), (INFERENCE_KV_CACHE, "users")])
def test_encryption_of_busy_ranks_and_users_is_named(kernel: str, load: str) -> None:
    details = {"tls_suite": SUITE, "tls_bytes_cpu_s": 1e9, "client_threads": 4}

    def found(busy: float, moved_bytes: int, **more: object) -> dict[str, Finding]:
        cpu_s = {"cpu_user_s": 0.5 * busy * 40, "cpu_system_s": 0.5 * busy * 40}
        return _of_kernel(kernel, load, {**details, **more}, elapsed_s=10.0, bytes=moved_bytes, **cpu_s)

    says = found(0.95, 19_000_000_000)["object_tls"].says
    assert re.search(r"processors that it uses are 95% busy, and encryption takes 50% of that time", says), says
    assert not find_faults(says), says
    assert "object_tls" not in found(0.85, 19_000_000_000), "its processors are idle at times"
    assert "object_tls" not in found(0.95, 10_000_000_000), "something else takes most of the time"
    assert "object_tls" not in found(0.95, 19_000_000_000, tls_bytes_cpu_s=0.0), "plain TCP"
