"""What rules, ceilings and curves come to in planted cases, written out: ``tests/data/verdicts.jsonl``, one a line.

``PYTHONPATH=tests:python python -m verdicts --write`` takes them anew; what then differs is to be read, line by line.
"""

from __future__ import annotations

import json
import re
import sys
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from hwdyno.findings.rule import Verdict
from hwdyno.words import Ceiling, Curve

Made = Verdict | Ceiling | Curve
KINDS: tuple[type[Made], ...] = (Verdict, Ceiling, Curve)
ROOT = Path(__file__).parents[1]
PAGE = ROOT / "tests/data/verdicts.jsonl"
NAMES = """
ceilings contention curves exact_figures findings findings_caches findings_coverage findings_curves findings_hosts
findings_memory findings_published findings_serving findings_settings findings_why gpu_findings gpu imports
inference_findings kv_cache limits named_by network_findings open_loop resources roofline scaling single_lines
thresholds thresholds_edges thresholds_more thresholds_rules training_bad_luck training_findings vector_search
"""
"""Of the test files that plant it."""
DIGITS = 4
"""Of a figure that are compared: fits differ in the last ones from one library to the next."""
LONGEST_S = 1.0
"""Of a test whose lines are taken."""
LONGEST = 1200
"""Of a line."""
OPENING = 100
"""Characters by which two are of one kind, whatever their figures."""
_NUMBER = re.compile(r"[\d.,]*\d")
_OF_A_PLACE = re.compile(rf"/tmp\b|{re.escape(str(ROOT))}|pytest-")


def _plain(value: Any) -> Any:
    """As JSON has it, with figures of ``DIGITS`` digits."""
    if isinstance(value, float):
        return float(f"{value:.{DIGITS}g}")
    if isinstance(value, dict):
        return {str(name): _plain(one) for name, one in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(one) for one in value]
    return value if isinstance(value, str | int | bool | None) else str(value)


def line_of(made: Made) -> str:
    """It as a line of JSON, without what is empty."""
    return json.dumps(_plain({name: one for name, one in asdict(made).items() if one}), ensure_ascii=False)


@contextmanager
def caught(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[Made]]:
    """What is made within."""
    made: list[Made] = []
    with monkeypatch.context() as patched:
        for kind in KINDS:
            patched.setattr(kind, "__init__", _keeping(kind.__init__, made))
        yield made


def _keeping(whole: Callable[..., None], made: list[Made]) -> Callable[..., None]:
    def made_and_kept(self: Made, *args: Any, **named: Any) -> None:
        whole(self, *args, **named)
        made.append(self)

    return made_and_kept


@cache
def expected() -> dict[str, list[str]]:
    """By test: the lines of what it makes, among others."""
    found: dict[str, list[str]] = defaultdict(list)
    for line in PAGE.read_text().splitlines():
        test, _, verdict = line.partition("\t")
        found[test].append(verdict)
    return found


class _Taker:
    """A plugin of pytest that notes what each test makes."""

    def __init__(self) -> None:
        self.made: dict[str, list[str]] = {}
        self.seconds: dict[str, float] = defaultdict(float)

    @pytest.hookimpl(hookwrapper=True)
    def pytest_runtest_call(self, item: pytest.Item) -> Iterator[None]:
        with pytest.MonkeyPatch.context() as monkeypatch, caught(monkeypatch) as made:
            yield
        if not getattr(getattr(item, "obj", None), "is_hypothesis_test", False):
            self.made[item.nodeid] = [line_of(one) for one in made]

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self.seconds[report.nodeid] += report.duration if report.when == "call" else 0.0


def _kind(line: str) -> tuple[str, ...]:
    """Verdicts and ceilings are of one kind whatever their figures, curves by their model and how they end."""
    one = json.loads(line)
    if "says" in one:
        return one["severity"], _NUMBER.sub("#", one["says"])[:OPENING]
    if "formula" in one:
        return one.get("label", ""), _NUMBER.sub("#", one["formula"])[:OPENING]
    return one.get("model", ""), one.get("state", ""), one.get("unit", ""), *sorted(one.get("parameters", ()))


def chosen(made: dict[str, list[str]], quick: set[str]) -> list[str]:
    """The page's lines: of each kind the first one, from a quick test."""
    known: set[tuple[str, ...]] = set()
    lines = []
    for test, verdicts in made.items():
        if test not in quick or _OF_A_PLACE.search(test):
            continue
        for line in dict.fromkeys(verdicts):
            if len(line) <= LONGEST and not _OF_A_PLACE.search(line) and _kind(line) not in known:
                known.add(_kind(line))
                lines.append(f"{test}\t{line}")
    return lines


def main() -> None:
    """Run the tests and write the page."""
    if sys.argv[1:] != ["--write"]:
        raise SystemExit("usage: python -m verdicts --write")
    PAGE.write_text("")
    taker = _Taker()
    options = ["-q", "-p", "no:xdist", "-p", "no:cacheprovider", "-o", "addopts="]
    options += ["-m", "not machine and not browser and not peer"]
    status = pytest.main([*options, *(f"{ROOT}/tests/test_{name}.py" for name in NAMES.split())], plugins=[taker])
    if status:
        raise SystemExit("the tests fail; mend them first")
    quick = {test for test, seconds in taker.seconds.items() if seconds < LONGEST_S}
    PAGE.write_text("".join(f"{line}\n" for line in chosen(taker.made, quick)))
    print(f"{PAGE.relative_to(ROOT)}: {len(PAGE.read_text().splitlines())} lines")


if __name__ == "__main__":
    main()
