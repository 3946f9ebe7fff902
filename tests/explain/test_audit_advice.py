"""Every command that an audit can advise on another tool's result is one that hwdyno takes."""

from __future__ import annotations

from pathlib import Path

import hwdyno
import pytest
from advised import commands_in, is_dry_run, not_taken, refused, shape
from conftest import SURVEYED
from here import IS_WHOLE, sample
from hwdyno import formats
from hwdyno.explain.findings.rule import Case
from hwdyno.measure import engine
from hwdyno.model.words import UserError
from hwdyno.report import sources

DATA = Path(__file__).parents[1] / "data"
PUBLISHED = Path(hwdyno.__file__).parent / "data" / "published"
CHANGES: tuple[dict[str, str | int | bool], ...] = (
    {}, {"direct": True, "size": "64G"}, {"runtime": 5}, {"ioengine": "io_uring"}, {"numjobs": 2},
)  # fmt: skip
"""What rules change in the command of a point."""


PERFORMED: set[tuple[str, ...]] = set()
"""Sets of options of which a command was performed as a dry run, for whichever tool."""


def _files() -> dict[str, list[Path]]:
    named = {name: sorted((DATA / "fuzz" / name).glob("*")) for name in formats.list_formats()}
    return {**named, "tools": sorted((DATA / "tools").glob("*")), "own": sorted(PUBLISHED.glob("*.csv"))}


@pytest.mark.parametrize("name", [name for name, files in _files().items() if files])
def test_each_point_of_a_tools_output_can_be_measured_again(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(engine, "survey", SURVEYED)
    wrong: dict[str, str] = {}
    seen: set[str] = set()
    for path in _files()[name][: sample(3, 1000)]:
        try:
            run = sources.merge_sources(sources.read_sources([str(path)], {}))
        except UserError:
            continue  # A seed of a reader's refusal.
        for result in run.experiments:
            for at in range(len(result.points)):
                for changes in CHANGES:
                    line = Case(run, result, at).command(**changes)
                    if line in seen:
                        continue
                    seen.add(line)
                    why = "no command of hwdyno" if commands_in(line) != [line] else refused(line)
                    # One of each set of options is performed; values alone are the parser's matter.
                    if not why and is_dry_run(line) and (IS_WHOLE or shape(line) not in PERFORMED):
                        PERFORMED.add(shape(line))
                        why = not_taken(line, tmp_path)
                    if why:
                        wrong[line] = why
    assert not wrong and (seen or name not in {"stress_ng", "clpeak", "tools"})
