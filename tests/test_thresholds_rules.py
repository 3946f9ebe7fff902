"""Thresholds of the rules on inference, images, served models and fleets, just below and just above each."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cache
from typing import Any

import pytest
import test_findings_serving as serving
import test_inference_findings as inference
import test_inference_images as images
from hwdyno.findings import explain
from hwdyno.fleet.slow import Slow, fleet_of, nodes_of
from hwdyno.words import Fault, Finding, Measurement, Run, Value
from made_fleet import Fault as Broken
from made_fleet import fleet
from simulation.serving import SimulatedServer

Sees = Callable[[float], bool]
SIZE, RAW_S = 1e9, 0.5


def says(found: dict[str, list[Finding]], rule: str, words: str = "") -> bool:
    return any(words in one.says for one in found.get(rule, []))


# --- a model's cold start and its decoding


def load(loader: str, seconds: float, cpu_s: float = 0.0, cache: str = "cold", **details: float) -> Measurement:
    """Four loads of 1 GB that are all alike."""
    return inference.measured(
        {"loader": loader, "cache": cache}, [SIZE / seconds] * 4, "bytes/s", bytes=int(4 * SIZE),
        elapsed_s=4 * seconds, cpu_user_s=4 * cpu_s, details={"cached_before": 0.0, **details},
    )  # fmt: skip


def cold(words: str, cpu_s: float = 0.2, **details: float) -> bool:
    """Whether the gap of a loader that takes a second is explained so."""
    found = inference.findings(load("raw", RAW_S), load("onnxruntime", 1.0, cpu_s, **details))
    return says(found, "load_gap", words)


def _gap(share: float) -> bool:
    return "load_gap" in inference.findings(load("raw", RAW_S), load("onnxruntime", RAW_S / share))


def _in_cache(share: float) -> bool:
    return "load_not_cold" in inference.findings(load("raw", RAW_S, cached_before=share))


def _decodes(share: float, weights: float = 100e6) -> bool:
    bound = 34e9 / (4 * weights)
    found = inference.explained(inference.decoding(share * bound, weights=weights), inference.memory(34e9))
    return says(found, "decode_bound", "is a possible cause")


def _still_helps(ratio: float) -> bool:
    found = inference.findings(load("raw", RAW_S), load("mapped", RAW_S / ratio, cache="warm"))
    return says(found, "storage_stops_mattering", "a faster one still helps")


# --- images from files


def _images(words: str, *points: Measurement) -> bool:
    return says(images.explained(*points), "images_from_files", words)


def _image(read: float, busy: float = 0.0, workers: int = 2) -> Measurement:
    return images.point("cold", workers, read, 0.25 * (1 - read), 0.75 * (1 - read), busy)


def _images_cached(share: float) -> bool:
    point = _image(0.1)
    return "images_not_cold" in images.explained(replace(point, details={**point.details, "cached_before": share}))


def _images_gain(share: float) -> bool:
    """The share of the rate from memory that comes from storage."""
    warm = images.point("warm", 2, 0.0, 0.25 * share, 0.75 * share, 0.1)
    return _images("a faster storage still helps", _image(0.0), warm)


# --- served models


@cache
def served(load: str, *values: float) -> Run:
    return serving._run(SimulatedServer(), load, values)


def changed(run: Run, *points: Measurement) -> dict[str, list[Finding]]:
    result = replace(run.experiments[0], points=points, curves=())
    found: dict[str, list[Finding]] = {}
    for one in explain(replace(run, experiments=(result,), findings=())).findings:
        found.setdefault(one.rule, []).append(one)
    return found


def one_point(load: str = "concurrency", value: float = 2, **details: Any) -> tuple[Run, Measurement]:
    run = served(load, value)
    (point,) = run.experiments[0].points
    return run, replace(point, details={**point.details, **details})


def with_times(point: Measurement, **medians: float) -> Measurement:
    """The same with these percentiles of these kinds of times, all of them in ns."""
    streams = tuple(
        replace(one, latency_ns={
            kind: replace(times, p50=medians[kind], p99=medians[kind], mean=medians[kind]) if kind in medians else times
            for kind, times in one.latency_ns.items()
        })
        for one in point.streams
    )  # fmt: skip
    return replace(point, streams=streams)


def _of_served(rule: str, **details: Any) -> bool:
    run, point = one_point(**details)
    return rule in changed(run, point)


def _late(share: float) -> bool:
    run, point = one_point()
    return "serving_late" in changed(run, with_times(point, send_lag=share * 1e8, first_token_sent=1e8))


def _client(share: float) -> bool:
    run, point = one_point()
    full = replace(point, cpu_user_s=share * point.elapsed_s, cpu_system_s=0.0)
    return "serving_client_bound" in changed(run, full)


def _failed(count: float) -> bool:
    run, point = one_point()
    faults = (Fault("request", 500, "the server failed", round(count)),) if count else ()
    return "serving_faults" in changed(run, replace(point, faults=faults))


def _rate(share: float, words: str = "", growth: float = 1.0, flight: float = 1.0) -> bool:
    """A share of its rate is served, of a million requests, so that chance is 0.4%."""
    run = served("rate", 30.0)
    (point,) = run.experiments[0].points
    reached = Value(30.0 * share, "requests/s", 29.9 * share, 30.1 * share)
    details = {**point.details, "in_flight_growth": flight, "first_token_growth": growth}
    made = replace(point, throughput=reached, rate=reached, operations=round(1e6 * share), details=details)
    return says(changed(run, made), "serving_rate", words)


def _prefix(gain: float = 2.0, share: float = 0.5) -> bool:
    run, point = one_point(cached_share=share)
    points = tuple(
        with_times(replace(point, parameters={**point.parameters, "reuse_prompts": reused}), first_token=median)
        for reused, median in ((False, gain * 1e8), (True, 1e8))
    )
    return says(changed(run, *points), "prefix_cache", "cache helps")


def two_loads(gain: float = 1.5, first: float = 1.0, token: float = 1.0, busy: float = 0.1, client: float = 0.1,
              most: float = 8.0) -> dict[str, list[Finding]]:  # fmt: skip
    """Two loads: by how much throughput and both times grow, and how busy the processors and the client are.

    A request takes 1 s at the lower one, of which its first token takes a half.
    """
    run = served("concurrency", 2.0, 8.0)
    found = []
    for at, point in enumerate(run.experiments[0].points):
        rate = Value(10.0 * (gain if at else 1), "requests/s", 9.9 * (gain if at else 1), 10.1 * (gain if at else 1))
        details = {**point.details, "output_tokens_mean": 11.0, "output_tokens_s": 11 * rate.value}
        point = replace(
            point, parameters={**point.parameters, "concurrency": most if at else 2.0}, throughput=rate, rate=rate,
            details=details, conditions={**point.conditions, "cpu_busy": busy},
            cpu_user_s=client * point.elapsed_s, cpu_system_s=0.0,
        )  # fmt: skip
        grown = (first, token) if at else (1.0, 1.0)
        found.append(with_times(point, first_token=5e8 * grown[0], per_token=5e7 * grown[1]))
    return changed(run, *found)


def _limit(words: str, **loads: float) -> bool:
    return says(two_loads(**loads), "serving_limit", words)


def _best(share: float) -> bool:
    """Whether the lower of two loads is good enough; at the higher one throughput is as the curve's ceiling."""
    return says(two_loads(gain=1 / share, most=64.0), "serving_capacity", "Best load: 2 concurrent requests")


# --- fleets


def slow_nodes(loss: float, facts: Any = (), count: int = 40) -> tuple[Slow, ...]:
    """What is found of equal nodes of which the first computes so much slower."""
    made = fleet(count, {0: Broken({"compute.flops": loss}, facts)}, noise=0.0)
    return fleet_of(nodes_of(made.rows), made.load).slow


def _least_loss(loss: float) -> bool:
    return [one.node.name for one in slow_nodes(loss)] == ["node0000"]


def _clock(kept: float) -> bool:
    (one,) = slow_nodes(0.2, [(("cpu", "clock_hz", "measured"), 3.5e9 * kept)])
    return any(found.path == "cpu.clock_hz.measured" for found in one.differences["compute"])


def _apart(agree: float) -> bool:
    """Of the 15 sound nodes that are looked at, so many have a kernel that the slow one has not."""
    older = (("os", "kernel"), "5.15.0")
    faults = {0: Broken({"compute.flops": 0.2}, [older])}
    faults |= {at: Broken({}, [older]) for at in range(1, 16 - round(agree))}
    made = fleet(40, faults, noise=0.0)
    (one,) = fleet_of(nodes_of(made.rows), made.load).slow
    return any(found.path == "os.kernel" for found in one.differences["compute"])


def _fleet_of(count: float) -> bool:
    return bool(slow_nodes(0.5, count=round(count)))


PAGE = 4096
# What is seen, a number at which it is not, and one at which it is.
THRESHOLDS: list[tuple[str, Sees, float, float]] = [
    ("a file in the cache", _in_cache, 0.0099, 0.0101),
    ("a gap", _gap, 0.801, 0.799),
    ("a loader computes", lambda busy: cold("Its process computes for", busy), 0.699, 0.701),
    ("a loader waits", lambda busy: cold("It waits for", busy), 0.501, 0.499),
    ("single faults", lambda part: cold("one at a time", 0.9, minor_faults=part * SIZE / PAGE), 0.499, 0.501),
    ("copies", lambda part: cold("It copies the weights", 0.9, memory_bytes=part * SIZE), 0.799, 0.801),
    ("reads by faults", lambda each: cold("page faults that each bring", major_faults=SIZE / each), 1.06e6, 1.04e6),
    ("small models", lambda weights: _decodes(0.5, weights), 200.1e6, 199.9e6),
    ("slow decoding", _decodes, 0.801, 0.799),
    ("a storage that holds a loader back", _still_helps, 0.99, 1.01),
    ("images in the cache", _images_cached, 0.0499, 0.0501),
    ("images wait", lambda read: _images("Storage limits it", _image(read)), 0.499, 0.501),
    ("images take all processors", lambda busy: _images("The processors limit it", _image(0.1, busy)),
     0.799 * images.PROCESSORS, 0.801 * images.PROCESSORS),
    ("images take their workers", lambda busy: _images("Each worker is busy", _image(0.1, busy)), 1.599, 1.601),
    ("images from memory are faster", _images_gain, 0.901, 0.899),
    ("late requests", _late, 0.099, 0.101),
    ("a full client", _client, 0.899, 0.901),
    ("failed requests", _failed, 0, 1),
    ("short answers", lambda share: _of_served("serving_short", short_share=share), 0.0499, 0.0501),
    ("cached prompts", lambda share: _of_served("serving_cached", cached_share=share), 0.0999, 0.1001),
    ("chunks", lambda each: _of_served("serving_chunks", tokens_a_chunk=each), 1.199, 1.201),
    ("a rate", _rate, 0.9765, 0.9755),
    ("growing waits", lambda growth: _rate(0.9, "Over-saturated", growth), 0.199, 0.201),
    ("growing queues", lambda growth: _rate(0.9, "Over-saturated", flight=growth), 0.199, 0.201),
    ("a prefix's gain", _prefix, 1.099, 1.101),
    ("a prefix's share", lambda share: _prefix(share=share), 0.0999, 0.1001),
    ("a limit", lambda gain: _limit("", gain=gain), 3.61, 3.59),
    ("two loads", lambda most: _limit("", gain=1.0, most=most), 3.99, 4.0),
    ("a queue", lambda first: _limit("the server's queue", first=first), 1.99, 2.01),
    ("a batch", lambda token: _limit("what the requests of a batch share", token=token), 1.99, 2.01),
    ("processors", lambda busy: _limit("the processors of this machine", busy=busy), 0.899, 0.901),
    ("the client", lambda client: _limit("the client", client=client), 0.899, 0.901),
    ("the best load", _best, 0.899, 0.901),
    ("a node's loss", _least_loss, 0.0495, 0.0505),
    ("a node's clock", _clock, 0.971, 0.969),
    ("a fact that is apart", _apart, 11, 12),
    ("nodes of a fleet", _fleet_of, 4, 5),
]  # fmt: skip


@pytest.mark.parametrize(
    ("sees", "below", "above"), [one[1:] for one in THRESHOLDS], ids=[one[0] for one in THRESHOLDS]
)
def test_a_threshold_is_where_it_is(sees: Sees, below: float, above: float) -> None:
    assert sees(above)
    assert not sees(below)
