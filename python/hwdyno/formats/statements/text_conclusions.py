"""Finds what a text concludes: of a disk's kind, of bandwidth and latency, of settings, of threads, of utilization."""

from __future__ import annotations

import re
from bisect import bisect_right

from hwdyno.formats.statements.sentences import is_denied, split_sentences

LONGEST_QUOTE = 90
MAX_HEADINGS = 50
"""Headings above a remark that may name its section."""
_INVERSE = (
    re.compile(
        r"\binverse(?:ly)?\b[^.;]{0,60}?\b(?:bandwidth|throughput)\b[^.;]{0,30}?\b(?:and|to|with)\b[^.;]{0,20}?\blatency",
        re.I,
    ),
    re.compile(r"\b(?:bandwidth|throughput)\b[^.;]{0,40}?\binverse(?:ly)?\b[^.;]{0,40}?\blatency", re.I),
    re.compile(r"\blatency\b[^.;]{0,40}?\binverse(?:ly)?\b[^.;]{0,40}?\b(?:bandwidth|throughput)", re.I),
)
_CONDITION = re.compile(
    r"\b(?:fixed|constant|single|same|given) (?:queue )?(?:depth|load)|\bdepth (?:of )?(?:1|one)\b", re.I
)
"""Words for one load, at which both are inverse: depth = rate x latency."""
_DELAY = re.compile(r"\binject(?:ion|ed)?[ -]delays?\b", re.I)
_RATE_FALLS = re.compile(
    r"\bbandwidth\b[^.;]{0,60}?\b(?:decreas|fall|drop|declin|reduc)\w*\b[^.;]{0,40}?\binject(?:ion|ed)?[ -]rates? "
    r"(?:increas|ris|grow)\w*|"
    r"\binject(?:ion|ed)?[ -]rates? (?:increas|ris|grow)\w*[^.;]{0,60}?\bbandwidth\b[^.;]{0,40}?"
    r"\b(?:decreas|fall|drop|declin|reduc)\w*",
    re.I,
)
_CONCLUDED = re.compile(
    r"\b(?:conclud\w*|therefore|hence|must be|tells? us|shows? that|we can (?:tell|say|see) that)\b", re.I
)
_BY_SPEED = re.compile(r"\blatenc(?:y|ies)\b|\bthroughput\b|\bbandwidth\b|\bperformance\b|\bspeeds?\b", re.I)
_FLASH = re.compile(r"\b(?:it is|it's|it’s|is|are|be|an?|our) (?:an? )?(?:ssd|solid[- ]state)\b", re.I)
_PLATTERS = re.compile(
    r"\b(?:it is|it's|it’s|is|are|be|an?|our) (?:an? )?(?:hdd|spinning|hard (?:disk|drive)|rotat\w+)\b", re.I
)
_BY_BLOCK = re.compile(
    r"\b(?:large|larger|big|bigger|increas\w+) (?:the )?(?:blocks?|queues?|i/?os?|depths?)\b|"
    r"\bblock sizes?\b[^.]{0,60}\b(?:gives?|giving|higher|reach\w*)\b",
    re.I,
)
_FOR = re.compile(r"\b(?:prove[sdn]?|proof|hypothesis|because|due to|thanks to|reached|explains?|caus\w+)\b", re.I)
_FORMULA = re.compile(
    r"=\s*(?P<above>[A-Za-z][A-Za-z _]{2,40}?)\s*/\s*\(\s*(?P=above)\s*\+\s*"
    r"(?P<added>(?:[A-Za-z][A-Za-z _/]{0,30}\b)?(?:load|read|i/?o|storage|data|fetch)\b[A-Za-z _/]{0,20})\s*\)",
    re.I,
)
_PROCESSORS = re.compile(
    r"\b(?:v?CPUs|vCPU|CPU\(s\)|Number of CPUs)[ \t]*[:=\t][ \t]*(?P<all>\d{1,4})(?![\w.%-])|"
    r"\b(?P<virtual>\d{1,4}) ?vCPUs?\b|"
    r"\bNumber of cores: (?P<cores>\d{1,4})\b",
    re.I,
)
_SMT = 2
"""Processors that a core is at most, but for those that the next pattern names."""
_MORE_SMT = re.compile(r"\bpower ?\d|\bphi\b|\bknl\b|\bsparc\b", re.I)
_HEADING = re.compile(r"^[ \t]*(?:#{1,6}[ \t]+|\*\*)(.{1,80}?)\**[ \t]*$", re.M)
_SECTIONS = (
    ("memory", re.compile(r"\bmemory\b|\bram\b", re.I)),
    ("compute", re.compile(r"\bcpu\b|\bprocessor\b", re.I)),
)
_OPTIMAL = re.compile(
    r"\b(?:optimal|best|optimum)\b[^.\n]{0,30}?\b(?:concurrency|threads?|performance)\b[^.\n\d]{0,12}(?:\n[^\w\n]{0,8})?"
    r"[^.\n\d]{0,20}?(\d{1,4}) ?threads?\b",
    re.I,
)


def called_inverse(text: str) -> str:
    """The words by which a text calls bandwidth and latency inverse; empty where it does not, or of one load alone."""
    for sentence in split_sentences(text):
        for pattern in _INVERSE:
            match = pattern.search(sentence)
            if match is not None and not is_denied(sentence) and not _CONDITION.search(sentence):
                return match[0][:LONGEST_QUOTE]
    return ""


def delay_called_rate(text: str) -> str:
    """The words by which a text has bandwidth fall as an injection rate rises, where it injects delays."""
    if not _DELAY.search(text):
        return ""
    found = (match for sentence in split_sentences(text) if (match := _RATE_FALLS.search(sentence)))
    return next((match[0][:LONGEST_QUOTE] for match in found), "")


def concluded_kind(text: str) -> str:
    """The kind of disk that a text concludes from its speed, ``SSD`` or ``hard disk``; empty without one."""
    for sentence in split_sentences(text):
        if is_denied(sentence) or not (_CONCLUDED.search(sentence) and _BY_SPEED.search(sentence)):
            continue
        kinds = [kind for kind, pattern in (("SSD", _FLASH), ("hard disk", _PLATTERS)) if pattern.search(sentence)]
        if len(kinds) == 1:
            return kinds[0]
    return ""


def credits_settings(text: str) -> bool:
    """Whether a text says that larger blocks or more depth are why its results are higher."""
    return any(_BY_BLOCK.search(sentence) and _FOR.search(sentence) for sentence in split_sentences(text))


def utilization_formula(text: str) -> str:
    """The formula by which a text adds load time to compute time: ``compute / (compute + load)``; empty without one."""
    match = _FORMULA.search(text)
    if match is None or not re.search(r"\butili[sz]ation\b|\bAU\b", text):
        return ""
    above, added = (" ".join(match[name].split()) for name in ("above", "added"))
    return f"{above} / ({above} + {added})"


def optimal_threads(text: str) -> list[dict[str, object]]:
    """The threads that a text calls best for memory or for a processor, where they are more than its processors."""
    found_counts = [match.groupdict() for match in _PROCESSORS.finditer(text)]
    counts = [int(of["all"] or of["virtual"] or _SMT * int(of["cores"])) for of in found_counts]
    headings = list(_HEADING.finditer(text))
    found: dict[str, int] = {}
    for match in _OPTIMAL.finditer(text):
        above = headings[: bisect_right(headings, match.start(), key=lambda heading: heading.start())]
        sections = (name for heading in reversed(above[-MAX_HEADINGS:]) for name in _name_section(heading[1]))
        section = next(sections, "")
        if section:
            found[section] = max(found.get(section, 0), int(match[1]))
    most = 0 if _MORE_SMT.search(text) else max(counts, default=0)
    return [
        {"resource": name, "threads": count, "processors": most} for name, count in found.items() if 0 < most < count
    ]


def _name_section(heading: str) -> list[str]:
    """The resource that a heading names; ``other`` parts of a report end a section, and remarks in it do not."""
    if re.search(r"\bobservations?\b|\bresults?\b|\bconclusions?\b|\banalysis\b|\boptimal\b|\bnotes?\b", heading, re.I):
        return []
    return [next((name for name, pattern in _SECTIONS if pattern.search(heading)), "")]
