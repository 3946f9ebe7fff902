"""How a result was measured, as the command above it and the words before it state."""

from __future__ import annotations

import re
from collections.abc import Mapping

from hwdyno.formats.column import PARAMETERS, parse_head, parse_pattern
from hwdyno.model.units import as_number
from hwdyno.model.words import Parameters

_OPTION = re.compile(r"(?<![\w-])(?:-{1,2}([A-Za-z][\w-]{0,30})[= ]|([A-Za-z][\w-]{0,30})=)([\w.:/]{1,60})(?=\s|$)")
_WRITES_TO = re.compile(r"\bof=(?!/dev/(?:null|zero)\b)\S")
_TO_A_HOST = re.compile(r"(?i)\b(?:up|down)load\b")
"""Words for a transfer between hosts, which a GPU's table uses for one to or from its memory."""
_COUNTED = re.compile(
    r"(?i)\b\d[\d.]{0,8} ?[kMG] (?=(?:requests|ops|operations|records|keys|rows|objects|files|users|clients|queries)\b)"
)
"""``2.2 k requests`` is no size."""


def find_load(command: Mapping[str, str], label: str) -> Parameters:
    """What the command above and the words of a line state of how it was measured."""
    stated: Parameters = {}
    for option, value in command.items():
        meaning = parse_head(option)
        if meaning.quantity in {*PARAMETERS} - {"operation", "protocol", "rate", "n", "size"}:
            stated |= parse_pattern(f"{value}") if meaning.quantity in {"bs", "rw"} else {}
            if meaning.quantity not in {"bs", "rw", "direct"} and value.isdecimal() and len(value) < 7:
                stated[meaning.quantity] = int(value)
    if (rate := as_number(command.get("request_rate"))) is not None:
        stated["request_rate"] = rate
    if command.get("if"):
        stated["rw"] = "write" if _WRITES_TO.search(f"of={command.get('of', '')}") else "read"
    return {**stated, **parse_pattern(_COUNTED.sub("", _TO_A_HOST.sub("", label)))}


def find_options(command: str) -> dict[str, str]:
    """The options of a command or a line of settings, by name."""
    return {(match[1] or match[2]).lower().replace("-", "_"): match[3] for match in _OPTION.finditer(command)}
