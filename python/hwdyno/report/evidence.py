"""The evidence of a finding as its reader sees it: a name in words, and a figure with its unit."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from hwdyno.model import units
from hwdyno.report import figures

LONGEST_TEXT = 400
"""Characters of one piece of evidence: whole histograms and lists stay in the raw data."""
SYMBOLS = {
    "Xm": "fitted maximum",
    "B": "fitted maximum",
    "N*": "load at which the fit bends",
    "p": "sharpness of the knee",
    "R0": "latency at rest",
    "R1": "time of one operation alone",
    "A": "waiting at half of the maximum",
    "n1/2": "size that reaches half of the maximum",
    "t0": "time of an empty operation",
    "d": "slope of the fall",
    "Nd": "load at which it falls",
    "w": "width of the fall",
    "a": "serial share",
    "b": "cost of coherency",
    "c": "throughput of one",
    "cv": "standard deviation over mean",
    "au": "accelerator utilisation",
}
"""Parameters of fitted models, and other letters."""
NANOSECONDS = {"R0", "A"}
SIZES = {"n1/2"}
SECONDS = {"t0", "R1"}
LETTERS = 4
"""Letters of a symbol that follows its words."""
OF_UNIT = frozenset({"Xm", "B", "c", "worst", "median", "ceiling", "low", "high", "best", "before", "after", "usual"})
"""Figures in the unit that the evidence gives."""
SHARES = frozenset(
    {
        *("share", "steal", "tolerance", "target", "half_width", "others_cpu", "others_before", "spread", "drop"),
        *(
            "cpu_busy",
            "processors_busy",
            "gain",
            "loss",
            "cv",
            "au",
            "recall",
            "chance",
            "p_value",
            "overlap",
            "variability",
        ),
    }
)
LEFT_OUT = frozenset({"unit", "headline"})
"""What only programs read."""
ENDINGS = {
    "_bytes_s": "bytes/s",
    "_bits_s": "bit/s",
    "_flop_s": "FLOP/s",
    "_operations_s": "operations/s",
    "_requests_s": "requests/s",
    "_tokens_s": "tokens/s",
    "_queries_s": "queries/s",
    "_hz": "Hz",
    "_bytes": "B",
    "_ns": "ns",
    "_us": "µs",
    "_ms": "ms",
    "_s": "s",
    "_share": "share",
}
WITHIN = {f"{ending}_": unit for ending, unit in ENDINGS.items() if unit in {"bytes/s", "ns", "s"}}
"""The same before a percentile: ``latency_ns_p99``."""


def sentences(evidence: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Each piece in words; what is unknown or empty is left out."""
    unit = str(evidence.get("unit") or "")
    shown = ((str(name), value) for name, value in evidence.items() if name not in LEFT_OUT)
    found = ((_name(name), _format_value(name, value, unit)) for name, value in shown)
    return [(name, text if len(text) <= LONGEST_TEXT else f"{text[:LONGEST_TEXT]} …") for name, text in found if text]


def _name(name: str) -> str:
    """``first_token_ns_p99`` as ``first token p99``."""
    if name in SYMBOLS:
        return f"{SYMBOLS[name]} ({name})" if len(name) <= LETTERS else SYMBOLS[name]
    name = f"_{name}"
    for ending, unit in (*ENDINGS.items(), *WITHIN.items()):
        if unit != "share" and (name.endswith(ending) if ending in ENDINGS else ending in name):
            name = name.replace(ending, " ")
            break
    return name.replace("_", " ").strip() or "throughput"


def _format_value(name: str, value: Any, unit: str) -> str:
    if value is None or value in ("", [], {}):
        return ""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int | float):
        return _number(name, float(value), unit)
    if isinstance(value, Mapping):
        if all(isinstance(inner, Sequence) and not isinstance(inner, str) for inner in value.values()):
            return ", ".join(f"{len(inner)} of {key}" for key, inner in value.items())
        parts = ((_name(str(key)), _format_value(str(key), inner, unit)) for key, inner in value.items())
        return ", ".join(f"{key} {text}" for key, text in parts if text)
    if isinstance(value, list | tuple):
        name = "usual" if name == "repeats" else name  # Each one's throughput.
        apart = "; " if any(isinstance(inner, Mapping) for inner in value) else ", "
        return apart.join(filter(None, (_format_value(name, inner, unit) for inner in value)))
    return str(value)


def _number(name: str, value: float, unit: str) -> str:
    """One number by what its name says of its unit."""
    known = _unit(name)
    if known == "share":
        return units.format_percent(value, precise=True)
    if known == "B":
        return units.format_memory(value) if value >= 0 else f"-{units.format_memory(-value)}"
    if known or (unit and name in OF_UNIT):
        return figures.scale_for([value], known or unit).quantity(value)
    return units.format_number(value) if value != int(value) or abs(value) >= 1e4 else f"{value:.0f}"


def _unit(name: str) -> str:
    if name in SHARES:
        return "share"
    for names, unit in ((NANOSECONDS, "ns"), (SECONDS, "s"), (SIZES, "B")):
        if name in names:
            return unit
    ended = next((unit for ending, unit in ENDINGS.items() if f"_{name}".endswith(ending)), "")
    return ended or next((unit for ending, unit in WITHIN.items() if ending in f"_{name}"), "")
