"""Advice from curves of a queue, and of block sizes: the text for a curve whose model is known."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hwdyno.explain.findings import all_rules, explain
from hwdyno.explain.findings.bottleneck import find_limit
from hwdyno.explain.findings.rule import Case, Verdict
from hwdyno.model.words import Curve, ExperimentResult, Latency, OperatingPoint, Run, Value
from made_experiment import made_experiment
from made_point import base, case_of_base, make_run

CEILING, BEST = Value(1e8, "bytes/s"), OperatingPoint(8.0, 9e7, 2e5, True)
KNOWN = {"ceiling": CEILING, "best": BEST}
BY_NAME = {rule.name: rule for rule in all_rules()}
LATENCY = Latency(1e5, 1e5, 1e5, 1e5, None, 1e5, 1e5, 1000)


def run_with(curve: dict[str, Any], load: str, loads: tuple[float, ...], **changes: Any) -> Run:
    """The clean point at each load, with a curve through all."""
    resource, kernel = ("memory", "memory_bandwidth") if load in {"block", "threads"} else ("storage", "storage_blocks")
    fixed = changes.pop("fixed", {})
    points = tuple(base(**changes, parameters={"rw": "randread", load: value}) for value in loads)
    result = made_experiment(f"{resource}.x", resource, "?", load, kernel, points, fixed=fixed)
    made = Curve({}, load, tuple(range(len(loads))), "bytes/s", "", **{"state": "knee", **curve})
    return replace(make_run(base()), experiments=(replace(result, curves=(made,)),))


def found(
    rule: str, curve: dict[str, Any], load: str = "iodepth", loads: tuple[float, ...] = (1, 8), **changes: Any
) -> Verdict | None:
    run = run_with(curve, load, loads, **changes)
    case = Case(run, run.experiments[0], curve=run.experiments[0].curves[0])
    return BY_NAME[rule].check(case) if BY_NAME[rule].applies.to(case) else None  # type: ignore[return-value]


@pytest.mark.parametrize(("crossing", "load_90", "words"), [
    *((Value(8.0, "1", low, 9.0), 32.0, f"Knee: {words}; ceiling") for low, words in (
        (7.0, "iodepth 8 (7 to 9)"), (3.01, "iodepth 8 (3.0 to 9)"), (2.99, "between iodepth 3.0 and 9"),
        (None, "iodepth 8"),
    )),
    *((Value(8.0, "1", 7.0, None), 32.0, "Knee: iodepth 8; "), (Value(8.0, "1", 7.0, 9.0), 4.0, "Knee: iodepth 4; ")),
    (None, 4.0, "Knee: not located; "),
])  # fmt: skip
def test_knee_has_ends_of_its_interval(crossing: Value | None, load_90: float, words: str) -> None:
    parameters = {"N*": crossing} if crossing else {}
    finding = found("knee", {**KNOWN, "load_90": load_90, "parameters": parameters})
    assert finding is not None and words in finding.says


@pytest.mark.parametrize(("rule", "curve", "load"), [
    *(("knee", KNOWN, "iodepth"), ("best_block_size", KNOWN, "bs")),
    ("saturated", {**KNOWN, "state": "saturated at the first point"}, "iodepth"),
])  # fmt: skip
def test_curve_without_figures_is_silent(rule: str, curve: dict[str, Any], load: str) -> None:
    assert found(rule, curve, load) is not None and found(rule, {**curve, "best": None}, load) is None
    assert (found(rule, {**curve, "ceiling": None}, load) is None) == (rule != "saturated")
    assert BY_NAME[rule].check(case_of_base()) is None, "there is no curve"


def test_more_load_that_takes_throughput_is_said_to() -> None:
    lost = {**KNOWN, "state": "saturated at the first point", "parameters": {"loss": Value(0.27, "share")}}
    finding = found("saturated", lost)
    assert finding is not None and "More load loses 27% of the throughput and adds latency" in finding.says


FIRST = " Compared with iodepth 1: 3 times the throughput"
LAST = " Compared with iodepth 8: 300% of the throughput, 200% of the latency."


@pytest.mark.parametrize(("load", "latency", "says"), [
    *((4.0, 2e5, f"{FIRST}, 2 times the latency.{LAST}"), (1.0, 2e5, LAST), (4.0, None, f"{FIRST}.")),
    (8.0, 2e5, f"{FIRST}, 2 times the latency."),
])  # fmt: skip
def test_best_load_is_compared_with_ends(load: float, latency: float | None, says: str) -> None:
    curve = {"ceiling": CEILING, "best": OperatingPoint(load, 0.9, latency, True)}
    finding = found("knee", curve, throughput=Value(0.3, "bytes/s"), latency_ns=LATENCY)
    assert finding is not None and finding.says.endswith(f"ceiling: 100 MB/s.{says}")


@pytest.mark.parametrize(("load", "value", "fixed", "advice"), [
    *(("bs", value, {}, advice) for value, advice in ((1 << 20, "--bs 1M..8M"), (4 << 20, "--bs 4M..16M"))),
    *(("iodepth", value, {}, f"--iodepth {value}..{most}") for value, most in ((64, 512), (512, 1024))),
    *(("iodepth", 1024, {"numjobs": jobs}, advice) for jobs, advice in (
        (1, "--numjobs 4"), (256, "--numjobs 1024"), (257, "Run a second process"),
    )),
    *(("threads", value, {}, advice) for value, advice in ((7, "--threads 7..56"), (8, "Nothing to do."))),
])  # fmt: skip
def test_load_goes_on_eightfold(load: str, value: int, fixed: dict[str, Any], advice: str) -> None:
    finding = found("still_rising", {"state": "still rising"}, load, (value,), fixed=fixed)
    assert finding is not None and f"{advice} " in f"{finding.advice} "


def test_load_of_zero_is_a_load() -> None:
    """The load of 1 was not measured beside 0, 2 and 3."""
    finding = found("knee", {**KNOWN, "load_90": 1.0}, loads=(0, 2, 3))
    assert finding is not None and "--iodepth 1,2,3" in finding.advice
    finding = found("still_rising", {"state": "still rising"}, loads=(0,))
    assert finding is not None and finding.says.startswith("Still rising at iodepth 0; ")


@pytest.mark.parametrize(("load", "size", "measured", "advice"), [
    *(("bs", size, False, f"--bs {text}") for size, text in ((100.0, "512"), (1000.0, "1k"))),
    *(("block", 3.0, False, "--block 8"), ("bs", 4096.0, True, "Use blocks of 4 KiB or more: ")),
])  # fmt: skip
def test_block_size_is_power_of_two(load: str, size: float, measured: bool, advice: str) -> None:
    best = OperatingPoint(size, 9e7, None, measured)
    finding = found("best_block_size", {"ceiling": CEILING, "best": best}, load)
    assert finding is not None and advice in finding.advice and (measured or finding.advice.endswith(advice))


def grid(*cells: tuple[int | None, int, float]) -> ExperimentResult:
    points = tuple(
        base(parameters={"rw": "randread", "iodepth": depth, "bs": size}, throughput=Value(rate, "bytes/s"), rate=None)
        for depth, size, rate in cells
    )
    return made_experiment("storage.x", "storage", "?", "iodepth", "storage_blocks", points, fixed={})


@pytest.mark.parametrize(("cells", "best"), [
    (((1, 512, 0.2), (2, 512, 0.4), (1, 1024, 0.4), (2, 1024, 0.8)), (2, 1024)),
    (((1, 512, 0.0), (2, 512, 0.4), (1, 1024, 0.4), (2, 1024, 0.8)), None),
    # The least bytes in flight with 90% of the most, of one operation where no depth is known; then the least depth.
    (((1, 512, 0.89), (2, 512, 0.4), (1, 1024, 0.4), (2, 1024, 1.0)), (2, 1024)),
    (((1, 512, 0.91), (2, 512, 0.4), (1, 1024, 0.4), (2, 1024, 1.0)), (1, 512)),
    (((5, 1, 1.0), (3, 2, 1.0), (8, 1, 1.0), (8, 2, 1.0)), (5, 1)),
    (((4, 1, 1.0), (2, 2, 1.0), (8, 1, 1.0), (8, 2, 1.0)), (2, 2)),
    (((None, 1000, 1.0), (2, 600, 1.0), (4, 600, 1.0), (4, 1000, 1.0)), (None, 1000)),
    (tuple((depth, 4096, 1.0) for depth in (1, 2, 4, 8)), None),
])  # fmt: skip
def test_best_combination_is_least_in_flight(cells: Any, best: tuple[int | None, int] | None) -> None:
    run = explain(replace(make_run(base()), experiments=(grid(*cells),)))
    known = [finding.evidence["best"] for finding in run.findings if finding.rule == "best_combination"]
    assert known == ([] if best is None else [{"iodepth": best[0], "bs": best[1]}])


@pytest.mark.parametrize(("share", "curve", "is_saturated"), [
    *((share, {}, is_saturated) for share, is_saturated in ((0.89, False), (0.91, True))),
    *((0.95, {"state": state}, False) for state in ("still rising", "unknown")),
    *((0.95, {"ceiling": ceiling}, False) for ceiling in (None, Value(0.0, "bytes/s"))),
])  # fmt: skip
def test_device_is_saturated_near_ceiling(share: float, curve: dict[str, Any], is_saturated: bool) -> None:
    """The device's counter says that it was busy for longer than the time."""
    changes = {"throughput": Value(share * 1e8, "bytes/s"), "counters": {"device_busy_s": 12.0}}
    run = run_with({"ceiling": CEILING, **curve}, "iodepth", (8,), **changes)
    says = find_limit(Case(run, run.experiments[0], 0)).says
    assert (f"saturated: at {share:.0%} of its ceiling of 100 MB/s, busy 100% of the time" in says) == is_saturated
