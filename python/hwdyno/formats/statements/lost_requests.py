"""Finds how many requests a text's load tests lost: errors, timeouts and answers that are none."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

_COUNT = r"(\d[\d,]{0,14})"
_SOCKETS = re.compile(
    r"(?m)^\W*Socket errors: connect (\d{1,12}), read (\d{1,12}), write (\d{1,12}), timeout (\d{1,12})"
)
_NOT_SERVED = re.compile(rf"(?m)^\W*Non-2xx(?: or 3xx)? responses:\s{{1,20}}{_COUNT}|{_COUNT} non 2xx responses")
_FAILED = re.compile(
    rf"(?m)^\W*Failed requests:\s{{1,20}}{_COUNT}[^\n]*"
    r"(?:\n\W*\(Connect: (\d{1,12}), Receive: (\d{1,12}), Length: \d{1,12}, Exceptions: (\d{1,12})\))?"
)
"""ab counts an answer of another length than the first one as failed, which any dynamic page has."""
_ERRORS = re.compile(
    rf"(?m)^\W*{_COUNT} errors \(\d{{1,12}} timeouts\)|^\W*errors\.[A-Z]\w{{2,30}}:[ .]{{2,120}}{_COUNT}"
)
_BY_KIND = re.compile(
    r"(?m)^\s*\[(?:(?P<code>[1-5]\d\d)\]\s+(?P<answers>\d{1,12}) responses|"
    r"(?P<lost>\d{1,12})\]\s+\"?(?:Get|Post|Put|Delete)\b)"
)
"""``[200]  250 responses`` and ``[250]  Get "http://…": EOF``."""
_SHARES = re.compile(
    r"(?m)^\W*(?:Success\s+\[ratio\]\s+(?P<good>\d{1,3}(?:\.\d{1,4})?)%|http_req_failed\.{2,80}:\s+(?P<bad>\d{1,3}(?:\.\d{1,4})?)%)"
)
_ALL = re.compile(
    rf"(?m)^\W*(?:{_COUNT}(k?) requests in|Complete requests:\s{{1,20}}{_COUNT}|http\.requests:[ .]{{2,120}}{_COUNT})"
)
_ANSWERED = re.compile(rf"(?m)^\W*Successful requests:\s{{1,40}}{_COUNT}")
_PROMPTS = re.compile(r"(?:--num[-_]prompts?[ =]|\bnum_prompts?=)(\d{1,9})\b")
MIN_SHARE = 0.01
"""Share of failed requests from which on the figures of those that were answered are in doubt."""


def failed_requests(text: str) -> dict[str, Any] | None:
    """The worst test of a text by its share of failed requests; none below 1%."""
    found = [(failed / whole, failed, whole, line) for failed, whole, line in _list_failures(text) if whole > 0]
    share, failed, whole, line = max(found, default=(0.0, 0, 0, ""))
    if share < MIN_SHARE:
        return None
    return {"share": min(1.0, share), "failed": failed, "whole": whole, "line": " ".join(line.split())[:80]}


def _list_failures(text: str) -> Iterator[tuple[float, float, str]]:
    """Each count of failed requests, with that of all and the words for it."""
    for match in _SOCKETS.finditer(text):
        lost = float(sum(map(int, match.groups())))
        yield lost, _whole(text, match) and _whole(text, match) + lost, match[0]
    for pattern in (_NOT_SERVED, _ERRORS):
        for match in pattern.finditer(text):
            yield _number(match[1] or match[2]), _whole(text, match), match[0]
    for match in _FAILED.finditer(text):
        lost = float(sum(map(int, match.groups()[1:]))) if match[2] else _number(match[1])
        yield lost, _whole(text, match), match[0].partition("\n")[0]
    for match in _SHARES.finditer(text):
        share = 100 - float(match["good"]) if match["good"] else float(match["bad"])
        yield share, 100.0, match[0]
    kinds = list(_BY_KIND.finditer(text))
    lost = 0.0 + sum(int(match["lost"] or (match["answers"] if match["code"][0] in "145" else 0)) for match in kinds)
    if worst := next((match for match in kinds if match["lost"] or match["code"][0] in "145"), None):
        yield (
            lost,
            lost + sum(int(match["answers"]) for match in kinds if (match["code"] or "")[:1] in {"2", "3"}),
            worst[0],
        )
    if (answered := _ANSWERED.search(text)) and len(sent := {*_PROMPTS.findall(text)}) == 1:
        whole = int(sent.pop())
        yield max(0.0, whole - _number(answered[1])), whole, answered[0]


def _whole(text: str, match: re.Match[str]) -> float:
    """The count of all requests that is nearest to that of failed ones; 0 where none is stated."""
    counts = list(_ALL.finditer(text))
    if not counts:
        return 0.0
    nearest = min(counts, key=lambda count: abs(count.start() - match.start()))
    return _number(nearest[1] or nearest[3] or nearest[4]) * (1000 if nearest[2] else 1)


def _number(digits: str) -> float:
    return float(digits.replace(",", ""))
