"""Findings on contention: costs from a fiftieth on, for all pairs at once, and a cause that explains half of one."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hwdyno.analysis.estimates import ratio_interval
from hwdyno.explain.findings import explain
from hwdyno.explain.findings.contention import Cell, cost_words, find_cause, list_cells
from hwdyno.model.axes import BACKGROUND
from hwdyno.model.words import Run, Value
from made_experiment import made_experiment
from made_point import base, make_run


def kept_under(*shares: tuple[float, ...], scale: float = 1e6) -> Run:
    """Storage beside each load, with the share of its throughput alone that it keeps in each round."""
    rounds = [{"loaded_by_round": [scale * share for share in kept], "alone_by_round": [scale] * len(kept)}
              for kept in shares]  # fmt: skip
    points = [base(parameters={BACKGROUND.name: load}, details=kept) for load, kept in zip("abc", rounds, strict=False)]
    result = made_experiment("storage.x", "storage", "?", BACKGROUND.name, "", tuple(points), fixed={})
    return replace(make_run(base()), experiments=(*make_run(base()).experiments, result))


@pytest.mark.parametrize(("run", "severity", "words"), [
    (kept_under((0.981,) * 2), "info", "No contention found: together, no resource loses more than 1.9%."),
    (kept_under((0.979,) * 2), "info", "Worst pair: storage loses 2.1% ("),
    (kept_under((0.905,) * 2), "info", "Worst pair: storage loses 9.5% ("),
    (kept_under((0.895,) * 2), "warning", "Worst pair: storage loses 10% ("),
    (kept_under((0.5,) * 2, (0.6,) * 2, (0.8,) * 2), "warning", "2 more pairs lose at least 20%."),
    (kept_under((0.5,) * 2, (0.6,) * 2, scale=0.01), "warning", "1 more pair loses at least 40%."),
    # Four rounds about no cost: the interval's end is 9.4% and 10.5%.
    (kept_under((1.053, 0.947) * 2), "info", "no resource loses more than 9.4%. This holds with 95% confidence."),
    (kept_under((1.059, 0.941) * 2), "info", "Too noisy to find contention: a cost below 10% would not be seen."),
    (kept_under((1.001, 0.999), (1.001, 0.999)), "info", "This holds for all 2 pairs at once, with 95% confidence."),
    (kept_under((1.0, 0.9)), "info", "Too noisy to find contention: "),
    (kept_under((1.0, 1.0)), "info", "loses more than 0.1%."),
    (kept_under((0.5,)), "", ""), (kept_under((0.0, 0.0)), "", ""), (make_run(base()), "", ""),
])  # fmt: skip
def test_cost_is_printed_from_fiftieth_on(run: Run, severity: str, words: str) -> None:
    found = [finding for finding in explain(run).findings if finding.rule in {"contention", "no_contention"}]
    assert [finding.severity for finding in found] == ([severity] if severity else [])
    assert all(words in finding.says for finding in found)


def test_two_cells_are_less_certain() -> None:
    """Bonferroni: of two, each holds with 97.5%; a cell of one round has no interval."""
    kept = (0.8, 0.81, 0.79, 0.82)
    (alone,), (first, second) = list_cells(kept_under(kept)), list_cells(kept_under(kept, kept, (0.8,)))
    assert alone.sure == alone.kept == first.kept
    assert first.sure == second.sure == ratio_interval(kept, (1.0,) * 4, 0.975)
    words = [cost_words(Value(*ends)) for ends in ((0.57, "1", 0.53, 0.62), (0.57, "1"), (1.25, "1"))]
    assert words == ["43% (38 to 47%)", "43%", "-25%"]


LESS, ON = {"cores": 0.8, "cores_alone": 1.0}, {"cores": 2.0, "cores_alone": 2.0}
BUSY = {"cores": 3.0, "cores_alone": 6.0, "busy_share": 0.95}
MOVED = {**ON, "bytes_s": 4e10}
STEAL = {"steal_share_alone": 0.05}
IRQ = {"cores_alone": 2.0, "interrupt_share": 0.3, "interrupt_share_alone": 0.1}
FULL = "Memory bandwidth is full: both moved 85.1 GB/s, and memory alone moves 100 GB/s."


@pytest.mark.parametrize(("pair", "details", "cause"), [
    # Of a cost of a fifth on 8 processors: half of it is the least that a cause explains.
    ("storage compute", {**ON, **STEAL, "steal_share": 0.074}, None),
    ("storage compute", {**ON, **STEAL, "steal_share": 0.076}, "Steal rose from 5.0% to 7.6% of the CPU time."),
    # Less than a fiftieth of the CPU time is no rise, and a share of one side alone is none.
    ("storage compute", {**LESS, **STEAL, "steal_share": 0.069}, None),
    ("storage compute", {**LESS, **STEAL, "steal_share": 0.071}, "Steal rose from 5.0% to 7.1% of the CPU time."),
    *(("storage compute", {**LESS, name: 0.3}, None) for name in ("steal_share", "interrupt_share", *STEAL)),
    # Interrupts count where its threads ran less by half of the cost.
    ("storage compute", {**IRQ, "cores": 1.802}, None),
    ("storage compute", {**IRQ, "cores": 1.798}, "Interrupts rose from 10% to 30% of the CPU time."),
    # CPU time is short where nine tenths of it are busy, and both together want as much.
    ("storage compute", {**BUSY, "load_cores_alone": 1.19}, None),
    ("storage compute", {**BUSY, "load_cores_alone": 1.21},
     "CPU time is short: alone, both together use 7.21 of 8 processors."),
    ("storage compute", {**BUSY, "cores_alone": 7.5, "busy_share": 0.899}, None),
    ("compute storage", {**BUSY, "cores_alone": 4.0, "busy_share": 0.901},
     "CPU time is short: its threads ran 25% less, with 90% of it in use."),
    # Memory bandwidth is full from 85% of what memory moves alone.
    ("memory storage", {**MOVED, "load_bytes_s": 4.49e10, "bytes_s_alone": 1e11}, None),
    ("memory storage", {**MOVED, "load_bytes_s": 4.51e10, "bytes_s_alone": 1e11}, FULL),
    ("storage memory", {**MOVED, "load_bytes_s": 4.51e10, "load_bytes_s_alone": 1e11}, FULL),
    ("memory storage", {**MOVED, "load_bytes_s": 5e10}, None),
    ("storage network", {**MOVED, "load_bytes_s": 5e10, "bytes_s_alone": 1e9}, None),
])  # fmt: skip
def test_cause_explains_half_of_cost(pair: str, details: dict[str, float], cause: str | None) -> None:
    resource, load = pair.split()
    result = made_experiment(f"{resource}.x", resource, "?", BACKGROUND.name, "", (base(details=details),), fixed={})
    found = find_cause(Cell(result, 0, load, Value(0.8, "1"), Value(0.8, "1")), make_run(base()))
    assert (found and found.says) == cause
