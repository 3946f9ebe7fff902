"""Claimed ceilings of published studies: whether a finding doubts one, on both sides of each limit."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hwdyno.explain.findings import explain
from hwdyno.explain.findings.claims import CLAIM
from hwdyno.model.words import ExperimentResult, Finding, Value
from made_experiment import made_experiment
from made_point import base, make_run


def claim(
    resource: str, text: str, value: float, unit: str = "bytes/s", stated: str = "", **given: Any
) -> ExperimentResult:
    point = base(parameters={"claim": text, "study": "s", **given}, throughput=Value(value, unit), rate=None,
                 details={"claimed_unit": stated or unit}, validity="valid")  # fmt: skip
    return made_experiment(f"{resource}.claims", resource, "?", "claim", CLAIM, (point,), fixed={})


def doubt(rule: str, *results: ExperimentResult) -> Finding | None:
    run = explain(replace(make_run(base()), imported_from="table", experiments=results))
    return next((finding for finding in run.findings if finding.rule == rule), None)


@pytest.mark.parametrize(("text", "value", "is_named"), [
    # Within 2%, in any prefix of the factors; a value of zero claims nothing.
    *(("8 x 3.2 GT/s x 2", 51.2e9 * off, is_named) for off, is_named in ((1.0, 0), (1.0199, 0), (1.0201, 1))),
    *(("8 x 3.2 GT/s x 2", 51.2e9 * off, is_named) for off, is_named in ((0.0, 0), (0.9801, 0), (0.9799, 1))),
    *(("8 x 3200 MT/s x 2", value, is_named) for value, is_named in ((51.2, 0), (51.2e9, 0), (25.6, 1))),
    *(("no product at all", 51.2e9, 0), ("2 x 0.5", 1.0, 0), ("2 x 3", 1.0, 1)),
    # A product beyond all numbers is compared with nothing, and one without a ratio to the value is printed.
    *((f"1{zeros * '0'} x 1{zeros * '0'}", 51.2e9, 0) for zeros in (200, 400)), (f"1{308 * '0'} x 1", 1e-20, 1),
])  # fmt: skip
def test_product_is_claimed_value(text: str, value: float, is_named: bool) -> None:
    assert (doubt("formula_yields_other", claim("memory", text, value)) is not None) == is_named


@pytest.mark.parametrize(("rate", "is_named"), [
    # Within half a percent of a transfer rate of DDR, also in millions; 11.2 is twice such a rate.
    *(("3.2 GT/s", False), ("3.2144 GT/s", False), ("3.2176 GT/s", True), ("3214.4 MT/s", False), ("11.2 GT/s", True)),
    *(("3217.6 MT/s", True), ("2133.3 MT/s", False), ("3.3", True), ("3200", False), ("3.2 GHz", True), ("3.6", False)),
])  # fmt: skip
def test_memory_has_transfer_rate_of_ddr(rate: str, is_named: bool) -> None:
    assert (doubt("memory_by_clock", claim("memory", f"{rate} x 8 B x 2", 51.2e9)) is not None) == is_named
    assert doubt("memory_by_clock", claim("storage", f"{rate} x 8 B x 2", 51.2e9)) is None


def test_first_of_equal_factors_has_words() -> None:
    found = doubt("memory_by_clock", claim("memory", "3.2 GHz x 8 B x 3.2", 81.92e9))
    assert found is not None and found.evidence["rate"] == 3.2


@pytest.mark.parametrize(("rate", "clock", "resource", "study", "is_same"), [
    # Within half a percent; without GHz a factor is a clock between 0.5 and 7.
    *((rate, "3.7 GHz", "compute", "s", same) for rate, same in (("3.7", 1), ("3.71665", 1), ("3.72035", 0))),
    *((rate, rate, "compute", "s", same) for rate, same in (("3.7", 1), ("0.5", 0), ("0.6", 1), ("6.9", 1))),
    *(("7.5", clock, "compute", "s", same) for clock, same in (("7.5", 0), ("7.5 GHz", 1))),
    *(("3.7", "3.7 GHz", "compute", "t", 0), ("3.7", "3.7 GHz", "network", "s", 0)),
])  # fmt: skip
def test_clock_needs_the_same_studys_processor(rate: str, clock: str, resource: str, study: str, is_same: bool) -> None:
    memory = claim("memory", f"{rate} GHz x 8 B x 2", 51.2e9)
    found = doubt("memory_by_clock", memory, claim(resource, f"16 x {clock} x 16", 947e9, "FLOP/s", study=study))
    words = "the clock of the same study's CPU" if is_same else "looks like a CPU's clock"
    assert found is not None and words in found.says and found.evidence["same_clock"] == is_same


def test_same_clock_is_printed_before_other() -> None:
    other, same = (claim("memory", f"{rate} GHz x 8 B x 2", 51.2e9) for rate in (3.9, 3.7))
    memory = replace(other, points=other.points + same.points)
    found = doubt("memory_by_clock", memory, claim("compute", "16 x 3.7 GHz x 16", 947e9, "FLOP/s"))
    assert found is not None and "3.7 is the clock of" in found.says


M40, M40_FLOPS = "Tesla M40: 3072 x 1.114 GHz x 2", 6.84e12


@pytest.mark.parametrize(("text", "device", "ratio", "is_named"), [
    *((M40, None, ratio, is_named) for ratio, is_named in ((1.0, False), (1.019, False), (1.021, True))),
    *(("3072 x 1.114 GHz x 8", "Tesla M40", ratio, is_named) for ratio, is_named in ((1.0, False), (4.0, True))),
    ("Tesla M40", None, 4.0, True),
])  # fmt: skip
def test_known_gpu_has_its_peak(text: str, device: str | None, ratio: float, is_named: bool) -> None:
    given = {"device": device} if device else {}
    found = doubt("flops_per_core", claim("gpu", text, ratio * M40_FLOPS, "FLOP/s", **given))
    assert (found is not None) == is_named
    assert found is None or found.says.endswith(" 3072 cores x 1.114 GHz x 2 is 6.84 TFLOP/s.")


@pytest.mark.parametrize(("cores", "factor", "per_core"), [
    *((1024, factor, None) for factor in ("1", "2", "2.5", "65")), (1024, "3", 3.0), (1024, "64", 64.0),
    (127, "64", None), (128, "64", 64.0),
])  # fmt: skip
def test_unknown_gpus_core_does_2_flop(cores: int, factor: str, per_core: float | None) -> None:
    found = doubt("flops_per_core", claim("gpu", f"{cores} cores x 1.5 GHz x {factor}", 1e12, "FLOP/s"))
    assert (found and found.evidence["per_core"]) == per_core


@pytest.mark.parametrize(("resource", "value", "stated", "is_named"), [
    *(("network", value * 1e9, "GB/s", is_named) for value, is_named in ((10.199, True), (10.201, False), (5.0, True))),
    *(("network", 10e9, "Gbit/s", False), ("storage", 10e9, "GB/s", False)),
])  # fmt: skip
def test_line_rate_is_in_bits(resource: str, value: float, stated: str, is_named: bool) -> None:
    found = doubt("line_rate_in_bytes", claim(resource, "a link", value, stated=stated))
    assert (found and found.evidence["correct"]) == (value / 8 if is_named else None)


CACHED, WRONG = "A cache answered, or the claim is wrong.", "The claim or the measurement is wrong."


@pytest.mark.parametrize(("text", "ratio", "given", "cause"), [
    # Within 1%; a claim on one direction is exceeded by that alone.
    *(("a link", 1.0099, {"rw": "randwrite"}, ""), ("a link", 1.0101, {"rw": "randwrite"}, WRONG)),
    *(("rated reads", 1.19, {"rw": "randread"}, WRONG), ("rated reads", 1.21, {"rw": "randread"}, CACHED)),
    *(("rated reads", 1.3, given, "") for given in ({"rw": "randwrite"}, {}, {"rw": "rw", "rwmixread": 50})),
    *(("rated writes", 1.3, {"rw": rw}, cause) for rw, cause in (("randread", ""), ("randwrite", CACHED))),
    *((text, 1.3, {"rw": "rw", "rwmixread": reads}, CACHED) for text, reads in (("read", 100), ("rated writes", 0))),
])  # fmt: skip
def test_claim_is_exceeded_by_its_direction(text: str, ratio: float, given: dict[str, Any], cause: str) -> None:
    measured = base(parameters=given, throughput=Value(ratio * 1e9, "bytes/s"))
    for resource, study in (("storage", "s"), ("storage", "t"), ("memory", "s")):
        other = made_experiment(f"{resource}.x", resource, "?", "iodepth", "x", (measured,), fixed={"study": study})
        found = doubt("claim_exceeded", claim("storage", text, 1e9), other)
        assert (found is not None) == bool(cause and (resource, study) == ("storage", "s"))
        assert found is None or found.says.endswith(cause)
