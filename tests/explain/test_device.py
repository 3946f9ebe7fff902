"""Disks: what a mix of reads and writes costs, whether one spins, and the cache of a virtual one."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hwdyno.explain.findings import explain
from hwdyno.model.words import Finding, Measurement, Value
from made_point import base, make_run


def found(rule: str, *points: Measurement, **storage: Any) -> Finding | None:
    run = make_run(points[0], storage=storage)
    run = explain(replace(run, experiments=(replace(run.experiments[0], points=points),)))
    return next((finding for finding in run.findings if finding.rule == rule), None)


def known(value: float, half: float | None = 0.001) -> Value:
    return Value(value, "bytes/s", half and (1 - half) * value, half and (1 + half) * value)


def mix(share: int, value: Value, **changes: Any) -> Measurement:
    rw = {0: "randwrite", 100: "randread"}.get(share, "randrw")
    parameters = {**base().parameters, "rw": rw, "rwmixread": share}
    return base(parameters=parameters, throughput=value, rate=None, streams=(), counters={}, **changes)


PURE = mix(0, known(1e9)), mix(100, known(1e9))


@pytest.mark.parametrize(("points", "says"), [
    *(((*PURE, mix(50, known(rate))), says) for rate, says in ((9.51e8, ""), (9.49e8, "costs 5.1%"), (0.0, ""))),
    *(((*PURE, mix(50, known(5e8), validity=how)), says) for how, says in (("valid", "50% ("), ("invalid", ""))),
    ((*PURE, mix(50, known(5e8)), mix(75, known(8e8))), "2 mixes of this sweep are slower than taking turns."),
    *(((mix(0, known(2e9)), PURE[1], mix(75, known(8e8))), "costs 30%"), ((PURE[1], mix(50, known(5e8))), "")),
    *(((mix(0, known(0.0)), PURE[1], mix(50, known(5e8))), ""), ((*PURE, mix(50, known(9e8, 0.4))), "")),
    ([mix(share, known(value)) for share, value in ((0, 1.0), (100, 1.0), (50, 0.5))], "costs 50%"),
    # By an interval of 150% of a mix that lost 90%, and by 2% where none is known: 1.96 x 3.46% of half.
    *(((*PURE, mix(50, known(1e8, 1.5))), "75% to 100%)"),),
    ((mix(0, known(1e9, None)), mix(100, known(1e9, None)), mix(50, Value(9.2e8, "bytes/s", 9e8))), "; 1.8% to 14%)"),
])  # fmt: skip
def test_mix_costs_more_than_turns(points: Any, says: str) -> None:
    finding = found("mix_penalty", *points)
    assert finding is None if not says else finding is not None and says in finding.says


@pytest.mark.parametrize(("ns", "given", "says"), [
    *((1.0e6, {"bs": block}, says) for block, says in ((8192, "solid state"), (8193, ""))),
    *((ns, {}, says) for ns, says in ((1.0e6, "solid state"), (1.01e6, ""), (2.99e6, ""), (3.0e6, "spinning"))),
    *((3.0e6, given, "") for given in ({"direct": False}, {"iodepth": 2}, {"numjobs": 2}, {"rw": "read"})),
])  # fmt: skip
def test_disk_spins_by_its_random_reads(ns: float, given: dict[str, Any], says: str) -> None:
    latency = base().latency_ns
    assert latency is not None
    point = base(parameters={**base().parameters, "iodepth": 1, **given}, latency_ns=replace(latency, p50=ns))
    finding = found("spinning_or_solid", point, disks=[{"name": "sda", "rotational": True}])
    assert (finding.evidence["verdict"] if finding else "") == says
    kernel = " The kernel agrees." if says == "spinning" else " The kernel reports spinning."
    assert finding is None or finding.says.endswith(kernel)


def test_guest_disk_has_no_kind() -> None:
    """A regression: on virtio "solid state: one random read takes 56 us" was the host's page cache."""
    latency = base().latency_ns
    assert latency is not None
    point = base(parameters={**base().parameters, "iodepth": 1}, latency_ns=replace(latency, p50=56e3))
    finding = found("spinning_or_solid", point, disks=[{"name": "vda", "kind": "virtio", "rotational": True}])
    assert finding is not None and finding.says.startswith("One random read takes 56.0 µs (")
    assert finding.says.endswith("as on solid state. The host's disk cannot be seen from this guest.")


@pytest.mark.parametrize(("kind", "pairs", "ratio"), [
    *(("virtio", [(1 << 20, scale, times * scale)], ratio)
      for scale in (1e9, 1.0) for times, ratio in ((1.49, None), (1.51, 1.51))),
    *(("nvme", [(1 << 20, 1e9, 2e9)], None), ("virtio", [(1 << 20, 0.0, 2e9)], None)),
    *(("virtio", [(size, 1e9, 2e9)], ratio) for size, ratio in (((128 << 10) - 512, None), (128 << 10, 2.0))),
    ("virtio", [(1 << 20, 1e9, 2e9), (1 << 21, 1e9, 3e9)], 3.0),
])  # fmt: skip
def test_virtual_disk_writes_faster_to_cache(kind: str, pairs: Any, ratio: float | None) -> None:
    points = [
        base(parameters={**base().parameters, "rw": rw, "bs": size}, throughput=known(rate), rate=None, counters={})
        for size, *rates in pairs
        for rw, rate in zip(("read", "write"), rates, strict=True)
    ]
    finding = found("host_cache", *points, disks=[{"name": "vda", "kind": kind}])
    assert (finding and finding.evidence["ratio"]) == (ratio and pytest.approx(ratio))
