"""The rules of inference on simulated machines: a planted gap is found with its cause, and none is invented."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from here import sample
from hwdyno.analysis.estimates import interval
from hwdyno.analysis.resources import with_derived
from hwdyno.explain.findings import explain
from hwdyno.explain.findings.inference import break_even
from hwdyno.model.kernels import INFERENCE_STREAM
from hwdyno.model.machine import Cpu, Machine
from hwdyno.model.words import ExperimentResult, Finding, Measurement, Run, Value
from hwdyno.studies import kubernetes_ai_inference, kubernetes_ai_storage
from hwdyno.studies.kubernetes_ai_inference import SIDE_BY_SIDE
from made_experiment import made_experiment
from style import find_faults

MACHINES = sample(24, 200)
REPEATS = 4
Found = Callable[..., dict[str, list[Finding]]]


def measured(parameters: dict[str, Any], rates: list[float], unit: str, **more: Any) -> Measurement:
    fields: dict[str, Any] = {
        "rate": None, "latency_ns": None, "streams": (), "samples": None, "concurrency": None, "cpu_user_s": 0.0,
        "cpu_system_s": 0.0, "elapsed_s": 1.0, "operations": REPEATS, "bytes": 0, "repeats": REPEATS, "details": {},
    }  # fmt: skip
    return Measurement(parameters=parameters, throughput=interval(rates, unit), **{**fields, **more})


class Simulated:
    """A machine whose storage gives ``storage`` bytes/s, and its loaders."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.size = self.random.uniform(50e6, 5e9)
        self.storage = self.random.uniform(0.2e9, 12e9)

    def load(
        self, loader: str, seconds: float, cpu_s: float, system: float = 0.2, cache: str = "cold", **details: float
    ) -> Measurement:
        """One load of this much time and CPU time, a share of it in the kernel."""
        rates = [self.size / seconds * self.random.gauss(1, 0.01) for _ in range(REPEATS)]
        return measured(
            {"loader": loader, "cache": cache}, rates, "bytes/s", bytes=int(self.size * REPEATS),
            elapsed_s=REPEATS * seconds,
            cpu_user_s=REPEATS * cpu_s * (1 - system), cpu_system_s=REPEATS * cpu_s * system,
            details={"cached_before": 0.0 if cache == "cold" else 1.0, "first_answer_s": seconds / 3,
                     "deserialize_s": seconds * 2 / 3, **details},
        )  # fmt: skip

    def raw(self) -> Measurement:
        took = self.size / self.storage
        return self.load("raw", took, 0.1 * took, minor_faults=3.0)


def findings(*points: Measurement, **fixed: Any) -> dict[str, list[Finding]]:
    result = made_experiment(
        "inference.cold_start", "inference", "?", "threads", "inference_load", points,
        fixed={"model": "62m", "threads": 4, **fixed},
    )  # fmt: skip
    return explained(result)


def of_store(*points: Measurement, **route: Any) -> dict[str, list[Finding]]:
    """The same loads from an object store, of whose caches nothing is known, and what is known of the way there."""
    known, route = {"cache", "cached_before"}, {"open_s": 0.01, **route}
    streamed = [
        replace(
            point,
            parameters={name: value for name, value in point.parameters.items() if name not in known},
            details={
                **{name: value for name, value in point.details.items() if name not in known},
                "open_s": 0.01,
                **route,
            },
        )
        for point in points
    ]
    result = made_experiment(
        "inference.model_stream", "inference", "?", "threads", INFERENCE_STREAM, streamed,
        fixed={"model": "62m", "threads": 8, "chunk": 8 << 20},
    )  # fmt: skip
    return explained(result)


def explained(*results: ExperimentResult) -> dict[str, list[Finding]]:
    run = Run(
        id="x", started="", finished="", machines=(Machine(cpu=Cpu(threads=4)),), profile="", command="",
        experiments=results,
    )  # fmt: skip
    found: dict[str, list[Finding]] = {}
    for finding in explain(with_derived(run)).findings:
        found.setdefault(finding.rule, []).append(finding)
        assert not find_faults(finding.says), (finding.says, find_faults(finding.says))
    return found


PLANTS = {
    "faults": "It faults 4 KiB pages one at a time",
    "copies": "It copies the weights into",
    "computes": "Its process computes for",
    "waits": "page faults that each bring",
    "few": "too few reads are in flight, or they are too small",
}


def planted(machine: Simulated, cause: str) -> Measurement:
    """A loader that is at least a third slower than the storage, for one cause."""
    took = machine.size / machine.storage * machine.random.uniform(1.5, 6)
    if cause == "faults":
        faults = machine.size / 4096 * machine.random.uniform(0.8, 1.0)
        return machine.load("onnxruntime", took, took * machine.random.uniform(0.8, 1.0), 0.8, minor_faults=faults)
    if cause == "copies":
        memory = machine.size * machine.random.uniform(0.95, 2.2)
        return machine.load("onnxruntime", took, took * 0.95, minor_faults=memory / 4096 / 50, memory_bytes=memory)
    if cause == "computes":
        return machine.load("onnxruntime", took, took * 0.95, minor_faults=machine.size / 65536 / 4)
    if cause == "waits":
        faults = machine.size / machine.random.choice([16 << 10, 64 << 10, 128 << 10])
        return machine.load("onnxruntime", took, took * machine.random.uniform(0.05, 0.4), major_faults=faults)
    return machine.load("onnxruntime", took, took * machine.random.uniform(0.02, 0.3))


@pytest.mark.parametrize("cause", PLANTS)
def test_planted_gap_has_its_cause(cause: str) -> None:
    for seed in range(MACHINES):
        machine = Simulated(seed)
        (found,) = findings(machine.raw(), planted(machine, cause))["load_gap"]
        assert PLANTS[cause] in found.says, (seed, found.says)
        others = set(PLANTS.values()) - {PLANTS[cause], PLANTS["computes"]}
        assert not any(cause_text in found.says for cause_text in others)


def test_no_gap_is_invented_where_a_loader_keeps_up() -> None:
    for seed in range(MACHINES):
        machine = Simulated(seed)
        took = machine.size / machine.storage
        share = machine.random.uniform(0.83, 1.0)
        close = machine.load("mapped", took / share, took * 0.9, minor_faults=machine.size / 4096)
        assert "load_gap" not in findings(machine.raw(), close)


@pytest.mark.parametrize("cause", ["copies", "few"])
def test_planted_gap_of_a_store_has_its_cause(cause: str) -> None:
    says = {**PLANTS, "few": "Limit not identified: it waits"}[cause]
    for seed in range(MACHINES):
        machine = Simulated(seed)
        (found,) = of_store(machine.raw(), planted(machine, cause))["load_gap"]
        assert says in found.says and "--cold raw,read,onnxruntime" in found.advice, (seed, found)


def test_a_store_that_a_loader_keeps_up_with_has_no_gap_and_no_cache() -> None:
    for seed in range(MACHINES):
        machine = Simulated(seed)
        took = machine.size / machine.storage
        close = machine.load("onnxruntime", took / machine.random.uniform(0.83, 1.0), took * 0.9)
        found = of_store(machine.raw(), close)
        assert not {"load_gap", "load_not_cold", "storage_stops_mattering"} & set(found)
        says = found["cold_start"][0].says
        assert "of the plain ranged reads of the same object" in says and "Its parts: open 10" in says, says


def test_the_link_to_a_store_bounds_a_models_start() -> None:
    for seed in range(MACHINES):
        machine = Simulated(seed)
        share = machine.random.uniform(0.3, 0.9)
        payload = 1460 / 1538
        route = {"loopback": False, "interface": "eth0", "interface_virtual": False, "interface_driver": "mlx5_core",
                 "interface_mtu_bytes": 1500}  # fmt: skip
        raw, engine = machine.raw(), machine.load("onnxruntime", 2 * machine.size / machine.storage, 0.1)
        rate = raw.throughput.value
        found = of_store(raw, engine, **route, interface_bits_s=8 * rate / share / payload)
        assert f", {100 * share:.0f}% of eth0's link)" in found["cold_start"][0].says, found["cold_start"][0].says
        assert "physical_ceiling" not in found
        beyond = of_store(raw, engine, **route, interface_bits_s=8 * rate * 0.8 / payload)
        assert "above what eth0's link can carry (loader=raw)" in beyond["physical_ceiling"][0].says


def test_start_is_named_in_parts() -> None:
    machine = Simulated(1)
    machine.size, machine.storage = 1e9, 2e9
    found = findings(machine.raw(), machine.load("onnxruntime", 2.0, 1.9), machine.load("mapped", 1.0, 0.5))
    says = found["cold_start"][0].says
    assert says.startswith("Model 62m is ready in 1 s from this storage by mapped"), says
    assert "50% of the plain read of the same file" in says
    assert "Its parts: deserialize" in says and "first answer" in says


def test_a_file_that_was_cached_is_no_cold_load() -> None:
    machine = Simulated(2)
    point = machine.raw()
    kept = replace(point, details={**point.details, "cached_before": 0.4})
    (found,) = findings(kept)["load_not_cold"]
    assert "40% of the file was in the page cache" in found.says
    assert "load_not_cold" not in findings(point)


@pytest.mark.parametrize(("warm_s", "helps"), [(0.25, True), (4.0, False)])
def test_where_a_faster_storage_stops_mattering(warm_s: float, helps: bool) -> None:
    machine = Simulated(3)
    machine.size, machine.storage = 1e9, 1e9
    warm = machine.load("mapped", warm_s, warm_s, cache="warm")
    says = findings(machine.raw(), warm)["storage_stops_mattering"][0].says
    assert ("a faster one still helps" in says) == helps and ("a faster one would not help" in says) != helps


def decoding(tokens_s: float, threads: int = 1, weights: float = 213e6) -> ExperimentResult:
    details = {"bytes_per_token": 4 * weights, "weights": weights}
    point = measured({"stack": "onnxruntime", "threads": threads}, [tokens_s] * 3, "operations/s", details=details)
    return made_experiment(
        "inference.decode", "inference", "?", "threads", "inference_decode", (point,), fixed={"model": "246m"}
    )


def memory(bytes_s: float, threads: int = 1) -> ExperimentResult:
    point = measured({"operation": "read", "threads": threads}, [bytes_s] * 3, "bytes/s")
    return made_experiment("inference.memory", "inference", "?", "threads", "memory_bandwidth", (point,), fixed={})


def test_tokens_are_compared_with_bandwidth() -> None:
    found = explained(decoding(32.0), memory(34.08e9))["decode_bound"][0]
    assert found.evidence["bound"] == pytest.approx(40.0) and found.evidence["share"] == pytest.approx(0.8)
    assert "80% of what memory allows (34.1 GB/s of reads with 1 thread / " in found.says
    assert "possible cause" not in found.says
    small = explained(decoding(10.0, weights=30e6), memory(34e9))["decode_bound"][0]
    assert "work for each operator is a possible cause" in small.says


def test_bound_of_other_threads_is_ignored() -> None:
    assert "decode_bound" not in explained(decoding(32.0, threads=2), memory(34e9, threads=1))


def contexts(recompute: dict[int, float], restore: dict[int, float]) -> ExperimentResult:
    points = [
        measured({"stack": "onnxruntime", "way": way, "tokens": tokens}, [tokens / took] * 3, "operations/s")
        for way, times in (("recompute", recompute), ("restore", restore))
        for tokens, took in times.items()
    ]
    return made_experiment(
        "inference.restore", "inference", "?", "tokens", "inference_restore", tuple(points), fixed={"model": "62m"}
    )


def test_break_even_is_at_the_crossing() -> None:
    for seed in range(MACHINES):
        rng = random.Random(seed)
        prefill_s, read_s, first_s = rng.uniform(1e-4, 1e-2), rng.uniform(1e-6, 5e-5), rng.uniform(0.02, 2)
        crossing = first_s / (prefill_s - read_s)
        counts = [max(2, int(crossing * factor)) for factor in (0.25, 0.5, 0.75, 1.5, 3, 8)]
        recompute = [(float(count), prefill_s * count) for count in counts]
        restore = [(float(count), first_s + read_s * count) for count in counts]
        if len(set(counts)) == len(counts):
            assert break_even({"recompute": recompute, "restore": restore}) == pytest.approx(crossing, rel=0.01)


def test_restoring_is_said_to_win_from_where_it_does() -> None:
    says = explained(contexts({64: 0.1, 256: 0.4, 1024: 1.6}, {64: 0.2, 256: 0.25, 1024: 0.45}))["kv_restore"][0].says
    assert "beats computing it again from 1" in says and "after 0.4 s by restoring and after 1.6 s" in says
    says = explained(contexts({64: 0.1, 256: 0.4}, {64: 0.01, 256: 0.02}))["kv_restore"][0].says
    assert "beats computing it again at all 2 measured sizes, from 64 tokens on" in says
    says = explained(contexts({64: 0.1, 256: 0.4}, {64: 0.5, 256: 0.9}))["kv_restore"][0].says
    assert "is slower than computing it again, up to 256 tokens" in says


# --- the study's table


def classes(**storages: float) -> Run:
    """A Run of storages with these rates, whose loader reads at most 1 GB/s."""
    results = []
    for name, storage in storages.items():
        machine = Simulated(5)
        machine.size, machine.storage = 1e9, storage
        cold = machine.load("mapped", max(1.0, 1e9 / storage), 0.9)
        points = (machine.raw(), cold, machine.load("mapped", 1.0, 0.9, cache="warm"))
        results.append(
            made_experiment(
                f"inference.cold_start@{name}", "inference", "?", "threads", "inference_load", points,
                fixed={"model": "62m", "threads": 4},
            )
        )  # fmt: skip
        kept = contexts({64: 0.1, 1024: 1.6}, {64: 0.01, 1024: 16e6 / storage + 0.05})
        results.append(replace(kept, name=f"inference.restore@{name}"))
        # 100 kB an image, and 10 ms of a worker's time without reading.
        rates = {"cold": 4 / (0.01 + 1e5 / (0.002 * storage)), "warm": 400.0}
        images = [
            measured({"cache": cache, "threads": 4}, [rate] * REPEATS, "operations/s") for cache, rate in rates.items()
        ]
        results.append(
            made_experiment(
                f"inference.images@{name}", "inference", "?", "threads", "inference_images", tuple(images),
                fixed={"model": "resnet50"},
            )
        )  # fmt: skip
    return Run(
        id="x", started="", finished="", machines=(Machine(),), profile="", command="", experiments=tuple(results)
    )


def test_the_study_puts_storage_loader_and_first_answer_side_by_side_and_first() -> None:
    run = classes(slow=0.25e9, fast=4e9)
    grid = (measured({"rw": "randread", "bs": 4096, "iodepth": 1}, [1e8] * REPEATS, "bytes/s"),)
    fio = made_experiment("storage.grid@slow", "storage", "?", "iodepth", "storage_blocks", grid)
    table, rows, *_ = kubernetes_ai_storage.tables(replace(run, experiments=(fio, *run.experiments)))
    assert rows.title == "fio's grid by storage"
    slow, fast = (dict(zip(table.columns, row, strict=True)) for row in table.rows)
    assert (slow["storage"], fast["storage"]) == ("slow", "fast")
    assert float(slow["first answer cold s"]) == pytest.approx(4.0, rel=0.02)
    assert float(fast["first answer cold s"]) == pytest.approx(1.0, rel=0.02)
    assert int(fast["of the read %"]) == pytest.approx(25, abs=1) and int(slow["of the read %"]) >= 98
    assert float(slow["KV restore s"]) == pytest.approx(0.114, rel=0.01) and fast["KV recompute s"] == "1.600"
    assert set(SIDE_BY_SIDE) - set(table.columns) == {"fio read MB/s"}, "fio was not run"
    assert (slow["images/s cold"], slow["images/s warm"], fast["images/s cold"]) == ("19.0", "400.0", "177.8")


def test_study_names_storages_behind_on_images() -> None:
    def find_sentence(**storages: float) -> str:
        (says,) = (
            observation
            for observation in kubernetes_ai_inference.observations(classes(**storages))
            if " images" in observation
        )
        return says

    says = find_sentence(slow=0.25e9, fast=4000e9)
    assert "at 400.0 images/s from memory: it still helps slow (19.0)" in says and "fast (" not in says
    assert "does not limit images: 399.5 images/s from storage, 400.0 from memory" in find_sentence(fast=4000e9)


def test_study_names_sufficient_storage_speed() -> None:
    sentences = kubernetes_ai_inference.observations(classes(slow=0.25e9, fast=4e9))
    (says,) = (sentence for sentence in sentences if "start at" in sentence)
    assert "start at 999 MB/s, where the loader itself needs 1.00 s" in says
    assert "it still helps slow (" in says and "fast (" not in says
    (says,) = (
        observation
        for observation in kubernetes_ai_inference.observations(classes(fast=4e9))
        if "start at" in observation
    )
    assert "on none of these does it still help" in says
    (says,) = (
        observation
        for observation in kubernetes_ai_inference.observations(classes(slow=0.1e9))
        if "start at" in observation
    )
    assert "it still helps slow (10.10 s)" in says


# --- thresholds and words


def load(loader: str, seconds: float, cpu_s: float = 0.2, cache: str = "cold", system: float = 0.0, **details: float
         ) -> Measurement:  # fmt: skip
    """Four loads of 1 GB that are all alike; a part of their CPU time is in the kernel."""
    return measured(
        {"loader": loader, "cache": cache}, [1e9 / seconds] * 4, "bytes/s", bytes=4 * 10**9, elapsed_s=4 * seconds,
        cpu_user_s=4 * cpu_s * (1 - system), cpu_system_s=4 * cpu_s * system, details={"cached_before": 0.0, **details},
    )  # fmt: skip


def cold(cpu_s: float = 0.2, **details: float) -> dict[str, list[Finding]]:
    """A loader that takes a second where the plain read takes half of one."""
    return findings(load("raw", 0.5), load("onnxruntime", 1.0, cpu_s, **details))


def decoded(share: float, weights: float = 100e6) -> dict[str, list[Finding]]:
    """This share of the tokens that 34 GB/s allow, of 4 B for each weight."""
    return explained(decoding(share * 34e9 / (4 * weights), weights=weights), memory(34e9))


def restored(**seconds: float) -> dict[str, list[Finding]]:
    """Contexts that take 0.1 s to compute for each 64 tokens, and so long to restore."""
    restore = {int(tokens[1:]): took for tokens, took in seconds.items()}
    return explained(contexts({tokens: tokens / 640 for tokens in restore}, restore))


POSSIBLE, PAGES = "is a possible cause", 1e9 / 4096
# The rule, what it says, what is measured, a number at which it does not say so, and one at which it does.
THRESHOLDS: list[tuple[str, str, Found, float, float]] = [
    ("load_not_cold", "Not a cold load", lambda share: findings(load("raw", 0.5, cached_before=share)), 0.0099, 0.0101),
    ("load_gap", "", lambda share: findings(load("raw", 0.5), load("onnxruntime", 0.5 / share)), 0.801, 0.799),
    ("load_gap", "Its process computes for", cold, 0.699, 0.701),
    ("load_gap", "It waits for", cold, 0.501, 0.499),
    ("load_gap", "one at a time", lambda part: cold(0.9, minor_faults=part * PAGES), 0.499, 0.501),
    ("load_gap", "It copies the weights", lambda part: cold(0.9, memory_bytes=part * 1e9), 0.799, 0.801),
    ("load_gap", "page faults that each bring", lambda size: cold(major_faults=1e9 / size), 1.05e6, 1.04e6),
    ("decode_bound", POSSIBLE, lambda weights: decoded(0.5, weights), 200.1e6, 199.9e6),
    ("decode_bound", POSSIBLE, decoded, 0.801, 0.799),
    ("decode_bound", "tokens/s", decoded, 0.0, 0.01),
    ("storage_stops_mattering", "a faster one still helps",
     lambda ratio: findings(load("raw", 0.5), load("mapped", 0.5 / ratio, cache="warm")), 0.99, 1.01),
]  # fmt: skip


@pytest.mark.parametrize(("rule", "words", "found", "below", "above"), THRESHOLDS)
def test_an_inference_threshold_is_kept(rule: str, words: str, found: Found, below: float, above: float) -> None:
    silent, named = ([finding.says for finding in found(number).get(rule, [])] for number in (below, above))
    assert any(words in says for says in named)
    assert not any(words in says for says in silent)


# The rule, what is measured, the finding, and its advice.
MESSAGES: list[tuple[str, Found, str, str]] = [
    ("load_gap", lambda: cold(0.8, system=0.75, minor_faults=PAGES), "75% of it in the kernel", "--cold raw,mapped"),
    ("load_gap", lambda: cold(0.2, major_faults=2000), "waits for 80% of that time, in 2.00 k page faults", ""),
    ("load_gap", lambda: cold(0.6, major_faults=2000), "Limit not identified: it computes for 60%", ""),
    ("kv_restore", lambda: restored(_64=0.01, _256=0.02), "at all 2 measured sizes, from 64 tokens", "--tokens 16,64"),
    ("kv_restore", lambda: restored(_64=0.5, _256=0.9), "is slower than computing", "--tokens 256,512"),
    ("kv_restore", lambda: restored(_64=0.2, _256=0.25), "beats computing it again from 1", "--tokens 256,512"),
    ("kv_restore", lambda: restored(_4=0.001, _256=0.02), "from 4 tokens on", "--tokens 2,4"),
    ("kv_restore", lambda: restored(_64=5.0, _1500=9.0), "up to 1,500 tokens", "--tokens 1500,2000"),
]  # fmt: skip


@pytest.mark.parametrize(("rule", "found", "says", "advice"), MESSAGES)
def test_an_inference_rule_says_and_advises(rule: str, found: Found, says: str, advice: str) -> None:
    (finding,) = found()[rule]
    assert says in finding.says
    assert advice in finding.advice


@pytest.mark.parametrize("wrong", [{"validity": "invalid"}, {"bytes": 0}, {"throughput": Value(0.0, "bytes/s")}])
def test_a_load_that_does_not_count_is_no_start(wrong: dict[str, Any]) -> None:
    assert "cold_start" not in findings(replace(load("mapped", 1.0), **wrong))
