"""Finds the jobs in fio's normal output, also in a part of it: which lines belong to which, and what options it has."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from hwdyno.formats import fio_text_lines as lines
from hwdyno.model.axes import FIELD, is_mixed, list_traits
from hwdyno.model.words import Parameters

_BORDER = re.compile(r"^(?:Starting \d|Run status group|Disk stats)", re.M)
_DIRECTIONS = {"read": "reads", "write": "writes", "trim": "trims"}


@dataclass(slots=True)
class PrintedJob:
    """The lines of one job's result, or of several equal jobs that fio reports as one (``group_reporting``)."""

    name: str
    group: tuple[int, str]
    """The number of the run of fio in the text, and the group's."""
    jobs: int | None
    """How many jobs the figures are of; none where no line states it."""
    given: Parameters
    """What the job's first line and the command line state."""
    begin: int
    """Where its first direction begins in the whole text."""
    ways: list[re.Match[str]] = field(default_factory=list)
    text: str = ""
    """All lines from the first direction on."""
    is_crowded: bool = False
    """Whether other jobs of its group ran at the same time."""


def list_jobs(text: str) -> list[PrintedJob]:
    """The jobs of a text. A direction without a ``(groupid=`` line above it is of an unknown job."""
    patterns = {
        "job": lines.JOB, "command": lines.COMMAND, "pace": lines.PACE, "border": _BORDER, "result": lines.RESULT,
        "way": lines.WAY, "old way": lines.OLD_WAY,
    }  # fmt: skip
    found = [(match.start(), kind, match) for kind, pattern in patterns.items() for match in pattern.finditer(text)]
    scan = _Scan(text)
    for _, kind, match in sorted(found, key=lambda event: event[0]):
        if kind in {"way", "old way"}:
            scan.add_way(match)
        else:
            scan.end_job(match.start())
            scan.note(kind, match)
    scan.end_job(len(text))
    with_lines = [job for job in scan.jobs if job.ways]
    counts = Counter(job.group for job in with_lines if job.name)
    return [replace(job, is_crowded=bool(job.name) and counts[job.group] > 1) for job in with_lines]


class _Scan:
    """Goes through a text once and keeps what was stated of the job that comes next."""

    def __init__(self, text: str) -> None:
        self.jobs: list[PrintedJob] = []
        self._text = text
        self._open = False
        self._runs = 0
        self._seen_result = False
        self._of_jobs: dict[tuple[str, str], Parameters] = {}
        self._of_groups: dict[str, Parameters] = {}
        self._command = ""
        self._parsed: dict[str, Parameters] = {}
        self._pace: int | None = None

    def note(self, kind: str, match: re.Match[str]) -> None:
        """Takes in a line that is no direction."""
        if kind == "command" or (kind == "job" and self._seen_result):
            self._of_jobs, self._of_groups, self._pace = {}, {}, None
            self._command, self._parsed = "", {}
            self._runs, self._seen_result = self._runs + 1, False
        if kind == "command":
            self._command = match["words"]
        elif kind == "job":
            options = lines.options_in_job(match)
            self._of_jobs[match["name"], match["group"]] = options
            self._of_groups.setdefault(match["group"], options)
        elif kind == "pace":
            self._pace = int(match[1])
        elif kind == "result":
            self._seen_result = True
            self._begin(match["name"], match["group"], int(match["jobs"]), match.end())
        elif kind == "border" and match[0].startswith("Run"):
            self._pace = None

    def add_way(self, way: re.Match[str]) -> None:
        """Adds a direction to the open job, or begins one that nothing else is known of."""
        last = self.jobs[-1] if self._open else None
        if last is None or any(known["way"] == way["way"] for known in last.ways) or not self._may_join(last, way):
            self.end_job(way.start())
            groups = list(self._of_groups)
            self._begin("", groups[0] if len(groups) == 1 else "", None, way.start())
            last = self.jobs[-1]
        if not last.ways:
            last.begin = way.start()
        if not _fits(last.given, way["way"]):
            last.given = {name: value for name, value in last.given.items() if name == "numjobs"}
        last.ways.append(way)

    def end_job(self, at: int) -> None:
        """Ends the open job where the text goes on with something else."""
        if self._open and self.jobs[-1].ways:
            self.jobs[-1].text = self._text[self.jobs[-1].begin : at]
        self._open = False

    def _may_join(self, job: PrintedJob, way: re.Match[str]) -> bool:
        return bool(job.name) or not job.ways or (is_mixed(FIELD["rw"], job.given) and _fits(job.given, way["way"]))

    def _begin(self, name: str, group: str, jobs: int | None, at: int) -> None:
        first = self._of_jobs.get((name, group)) or self._of_groups.get(group, {})
        if self._command and name not in self._parsed:
            self._parsed[name] = lines.options_in_command(self._command, name)
        given = {**self._parsed.get(name, {}), **first, **({} if jobs is None else {"numjobs": jobs})}
        if self._pace and jobs == 1:
            given.setdefault("rate_iops", self._pace)
        self.jobs.append(PrintedJob(name.strip(), (self._runs, group), jobs, given, at))
        self._open = True


def _fits(given: Mapping[str, object], direction: str) -> bool:
    """Whether a job with these options has this direction; options of another one are not its own."""
    pattern = given.get("rw")
    return pattern is None or _DIRECTIONS[direction] in list_traits((FIELD["rw"],), {"rw": str(pattern)})
