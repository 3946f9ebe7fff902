"""Rules on training, one change at a time: each limit from both sides, and what each says and advises."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from hwdyno.analysis.estimates import interval
from hwdyno.explain.findings.training import read_feed
from hwdyno.model.point_details import Fault, Note
from hwdyno.model.words import ExperimentResult, Finding, Measurement, Parameters, PeerResult, Value
from made_training import BATCH, NEED, RECORD, client, kind, plain, point, rules

Found = Callable[..., dict[str, Finding]]


def bad_point(number: int, au: float = 0.99, notes: str = "", faults: str = "", **details: Any) -> Measurement:
    """A point with a note of this code, and with a fault of each file, named by one letter."""
    return replace(
        point(number, au, **details), notes=(Note(notes, "they end together"),) if notes else (),
        faults=tuple(Fault("record", 0, name, 1) for name in faults),
    )  # fmt: skip


def alone(number: int = 1, au: float = 0.99, given: Parameters | None = None, **details: Any) -> dict[str, Finding]:
    return rules(kind(bad_point(number, au, **details), **(given or {})))


def against(rate: float, *others: ExperimentResult, au: float = 0.5, threads: int = 4, **given: Any
            ) -> dict[str, Finding]:  # fmt: skip
    """A loader that reaches this many bytes/s, where plain reads reach 1 GB/s."""
    moved = replace(point(1, au), throughput=interval([rate] * 3, "bytes/s"))
    return rules(kind(moved, **given), plain((threads, 1e9)), *others)


def versus(tool: str, *aus: float, au: float = 0.95, epochs: int = 1, conditions: Any = None, **costs: float
           ) -> dict[str, Finding]:  # fmt: skip
    """An AU here, and those of a loader whose reads the engine beats threefold, twofold … with 1, 2, 4 accelerators."""
    points = [
        replace(point(1 << at, au, client_cpu_s_per_gb=0.5), conditions=conditions or {}) for at in range(len(aus))
    ]
    peers = (
        PeerResult(tool, "2.0.0", at, Value(1e9, "bytes/s"), Value(3.0 - at, "1", 2.9 - at, 3.1 - at),
                   details={"au": theirs, **costs})
        for at, theirs in enumerate(aus)
    )  # fmt: skip
    return rules(kind(*points, peers=tuple(peers), epochs=epochs))


STEPS_BYTES, RATE_S = 500 * RECORD * BATCH, 0.95 * NEED / RECORD
WAITS = "training with it waits for the loader"
# The rule, what it says, what is measured, a number at which it does not say so, and one at which it does.
THRESHOLDS: list[tuple[str, str, Found, float, float]] = [
    ("training_too_small", "(500 steps)", lambda size: alone(dataset_bytes=size * STEPS_BYTES), 1.01, 0.99),
    ("training_too_small", "(500 steps)", lambda size: alone(2, dataset_bytes=size * STEPS_BYTES), 2.01, 1.99),
    ("training_too_small", "(5 times this host's memory)",
     lambda size: alone(given={"batch_size": 1}, dataset_bytes=size * (64 << 30)), 5.01, 4.99),
    ("training_cached", "from the page cache", lambda share: alone(cached_share_by_device=share), 0.0495, 0.0505),
    ("training_au", "is below the required 90%", lambda au: alone(1, au), 0.901, 0.899),
    ("training_law", "over all steps", lambda off: alone(1, 0.95, samples_s=RATE_S / (1 + off)), 0.0495, 0.0505),
    ("training_law", "over all steps", lambda off: alone(1, 0.95, samples_s=RATE_S / (1 + off)), -0.0495, -0.0505),
    ("training_read_ahead", "is meaningless", lambda steps: alone(steps=steps, epochs=1), 8.1, 7.9),
    ("training_faults", "Data loss", lambda count: alone(faults="a", lost_samples=count), 0, 1),
    ("training_client_bound", "Client-bound", lambda share: rules(kind(point(1, 0.6)), client(share * 0.9 * NEED)),
     1.01, 0.99),
    ("training_client_bound", "Client-bound", lambda rate: rules(kind(point(1, 0.6)), client(rate)), 0.0, 1.0),
    ("training_plain", "faster than plain reads", against, 1.19e9, 1.21e9),
    ("training_plain", "slower than plain reads", against, 0.81e9, 0.79e9),
    ("training_plain", "slower than plain reads", against, 0.0, 1.0),
    ("training_plain", "slower than plain reads", lambda au: against(0.5e9, au=au), 0.91, 0.89),
    ("training_beside_dlio", "less AU by its own work", lambda apart: versus("dlio", 0.95 - apart), 0.0199, 0.0201),
    ("training_beside_loaders", WAITS, lambda apart: versus("pytorch", 0.95 - apart), 0.0199, 0.0201),
]  # fmt: skip


@pytest.mark.parametrize(("rule", "words", "found", "below", "above"), THRESHOLDS)
def test_a_training_threshold_is_kept(rule: str, words: str, found: Found, below: float, above: float) -> None:
    silent, named = (found(number).get(rule) for number in (below, above))
    assert named is not None and words in named.says
    assert silent is None or words not in silent.says


@pytest.mark.parametrize(("share", "severity"), [(0.0099, "warning"), (0.0101, "invalid")])
def test_one_percent_lost_is_invalid(share: float, severity: str) -> None:
    lost = share * point(1, 0.99).operations / 3
    assert alone(faults="a", lost_samples=lost)["training_faults"].severity == severity


COLUMNS: dict[str, Any] = {"read_columns": 3}
READ_HALF = tuple(replace(point(number, au, nominal_bytes=2e9), bytes=10**9) for number, au in ((1, 0.95), (2, 0.5)))
NEEDED = 2 * 0.9 * NEED / 2
OTHERS = {"cpu_busy": 0.6, "cpu_user": 0.6, "steal": 0.0}
UNEVEN: dict[str, Any] = {"notes": "uneven_tails", "samples_per_epoch": 8, "samples_left_over": 1}
# The rule, what is measured, the finding, and its advice.
MESSAGES: list[tuple[str, Found, str, str]] = [
    ("training_au", lambda: rules(kind(point(1, 0.6), point(2, 0.5))), "(2 h100 on unet3d): accelerators wait 50% of",
     "--read-threads 16"),
    ("training_client_bound", lambda: rules(kind(point(1, 0.6), point(2, 0.6)), client(2e9, 3e9)), "3,000 MB/s", ""),
    ("training_capacity", lambda: rules(kind(*READ_HALF, **COLUMNS), client(0.0, 0.99 * NEEDED)), "is this client", ""),
    ("training_capacity", lambda: rules(kind(*READ_HALF, **COLUMNS), client(0.0, 1.01 * NEEDED)), "is the storage", ""),
    ("training_plain", lambda: against(1.5e9, direct=False), "is 50% faster than plain reads", "--direct 1"),
    ("training_plain", lambda: against(0.5e9, client(0.79e9)), "no more than 790 MB/s", "or parse nothing: "),
    ("training_plain", lambda: against(0.5e9, client(0.81e9)), "Possible causes: opening files", "--read-threads 8"),
    ("training_plain", lambda: against(0.5e9), "h100 on unet3d): the loader is 50% slower", "--prefetch 4"),
    ("training_plain", lambda: against(0.5e9, threads=1, read_threads=None), "reads with 1 thread get", ""),
    ("training_faults", lambda: alone(faults="abc"), "Files: a; b; c.", "--generate"),
    ("training_faults", lambda: alone(faults="abcde"), "Files: a; b; c; 2 more.", "--generate"),
    ("training_uneven", lambda: alone(**UNEVEN), "1 of 9 samples is never read", "--samples 7"),
    ("training_uneven", lambda: alone(2, given={"batch_size": 4}, **UNEVEN), "1 of 9 samples", "--samples 8"),
    ("training_uneven", lambda: alone(2, given={"batch_size": 100}, **UNEVEN), "", "x batch size divides."),
    ("training_uneven", lambda: rules(kind(bad_point(1, **UNEVEN), bad_point(2, **{**UNEVEN, "samples_left_over": 4}))),
     "4 of 12 samples are never read", ""),
    ("training_other_data", lambda: alone(notes="other_workload"), "This point does not count", "the data set has"),
    ("training_other_data", lambda: alone(notes="no_step"), "This point does not count", "or more samples"),
    ("training_beside_dlio", lambda: versus("dlio", 0.9, 0.5, 0.8), "45.0 percentage points less", "--accelerators 2"),
    ("training_beside_dlio", lambda: versus("dlio", 0.5, cpu_s_per_gb=2.0), "DLIO would use 6.4 processors.", ""),
    ("training_beside_dlio", lambda: versus("dlio", 0.5, conditions=OTHERS), "Other processes loaded this", ""),
    ("training_beside_dlio", lambda: versus("dlio", 0.9, au=0.5, epochs=5), "more AU, which the same", "--epochs 1"),
    ("training_beside_loaders", lambda: versus("numpy", 0.9, 0.95, cpu_s_per_gb=2.0), "With 2 accelerators, numpy",
     "--accelerators 4,8"),
    ("training_beside_loaders", lambda: versus("numpy", 0.95, cpu_s_per_gb=2.0), "(3 times as much, 2.9 to 3.1).",
     ""),
    ("training_beside_loaders", lambda: versus("numpy", 0.95, cpu_s_per_gb=2.0), "2.00 s of CPU time there", ""),
]  # fmt: skip


@pytest.mark.parametrize(("rule", "found", "says", "advice"), MESSAGES)
def test_a_training_rule_says_and_advises(rule: str, found: Found, says: str, advice: str) -> None:
    finding = found()[rule]
    assert says in finding.says
    assert advice in finding.advice


@pytest.mark.parametrize("costs", [{}, {"cpu_s_per_gb": 0.3}])
def test_dlio_on_an_idle_machine_is_not_called_busy(costs: dict[str, float]) -> None:
    says = versus("dlio", 0.5, **costs)["training_beside_dlio"].says
    assert "DLIO would use" not in says and "Other processes" not in says


@pytest.mark.parametrize(
    ("given", "details", "batches", "samples"),
    [
        ({"batch_size": None}, {"steps": 100, "samples_per_epoch": 12}, 6.0, 32),
        ({"batch_size": 2}, {"steps": 100, "samples_per_epoch": 24}, 6.0, 64),
        ({"batch_size": 2}, {"steps": 10, "samples_per_epoch": 24}, 5.0, 64),
        ({"batch_size": 2}, {"steps": 50}, 5.0, 64),
        ({"batch_size": 2}, {"steps": 100}, None, 0),
    ],
)
def test_epoch_within_prefetch_needs_more_samples(
    given: Any, details: Any, batches: float | None, samples: int
) -> None:
    """Each of two accelerators has four readers that prefetch two batches, 8 in all; twice as many samples suffice."""
    found = alone(2, given=given, epochs=5, **details).get("training_read_ahead")
    assert (found and found.evidence["steps_an_epoch"]) == batches
    assert found is None or f"--samples {samples}" in found.advice


@pytest.mark.parametrize(
    ("columns", "nominal", "share"), [(3, 4e9, 0.25), (3, 0.5e9, 1.0), (3, None, 1.0), (None, 4e9, 1.0)]
)
def test_only_chosen_columns_are_read(columns: int | None, nominal: float | None, share: float) -> None:
    read = replace(point(1, 0.9, nominal_bytes=nominal), bytes=10**9, parameters={})
    found = read_feed(kind(read, read_columns=columns), read)
    assert found is not None and (found.number, found.read_share) == (1, share)


@pytest.mark.parametrize(("times", "share", "feeds"), [(1.0, 1.0, 2), (1.0, 0.5, 3), (0.33, 1.0, 0), (0.83, 1.0, 1)])
def test_plain_reads_feed_full_au(times: float, share: float, feeds: int) -> None:
    """1.1, 1.9 and 2.1 times the need of one, with the readers of one, two and three accelerators; AU 90%."""
    points = tuple(replace(point(number, 0.5, nominal_bytes=1e9), bytes=int(share * 1e9)) for number in (1, 2, 3))
    reads = plain(*((4 * number, times * need * NEED) for number, need in ((1, 1.1), (2, 1.9), (3, 2.1))))
    found = rules(kind(*points, **COLUMNS), reads)["training_capacity"]
    assert found.evidence["plain_most"] == feeds
    invalid = replace(reads, points=tuple(replace(read, validity="invalid") for read in reads.points))
    assert "plain_most" not in rules(kind(*points), invalid)["training_capacity"].evidence


@pytest.mark.parametrize(
    ("kinds", "changes", "words"),
    [
        ((("v100", 2), ("a100", 3), ("b200", 1)), {}, "this storage fed 3 a100, which need more"),
        ((("v100", 1),), {}, "this storage fed 1 v100, which need more"),
        ((("v100", 0),), {}, ""),
        ((("v100", 3),), {"need_bytes_s": NEED}, ""),
        ((("v100", 3),), {"workload": "resnet50"}, ""),
        ((("v100", 3),), {"files": 8}, ""),
    ],
)
def test_fed_hungrier_kind_clears_storage(kinds: Any, changes: Any, words: str) -> None:
    """A kind that needs twice as much reached its AU with this many accelerators."""
    need = changes.pop("need_bytes_s", 2 * NEED)
    others = [
        kind(*(point(number, 0.95 if number <= most else 0.5, need_bytes_s=need) for number in (1, 2, 3)),
             name=name, **{"files": 7, **changes})
        for name, most in kinds
    ]  # fmt: skip
    says = rules(kind(point(1, 0.5), files=7), *others)["training_capacity"].says
    assert words in says and ("which need more" in says) == bool(words)
