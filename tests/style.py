"""Checks that a text is in the project's plain style: short sentences, no stilted phrase, numbers and plurals right."""

from __future__ import annotations

import re

MAX_WORDS = 25
STILTED = (
    "of these", "there is it", "hands back", "brings about", "brings it about", "one's own", "of its own", "so many",
    "so much", "asked for", "asked to", "at work", "whatever", "held against", "lies far", "lie far", "speaks for",
    "take it with care", "somebody", "nobody", "no more than is", "that which", "the same of what", "tells of",
    "tells no", "tells nothing", "told", "aims at", "on the way down", "many a ", "an operation costs", "a KiB",
    "where this tool does not look", "stands in", "stood in", "such points", "was spent", "in vain",
)  # fmt: skip
"""Phrases that the style forbids, in lower case."""
OLD_WORDS = (
    "usual", "usually", "stands", "stand", "stood", "lies", "lie", "speaks of", "speak of", "speaks", "takes its place",
    "take its place", "comes to", "come to", "came to", "says nothing of", "is said", "was said", "is asked",
)  # fmt: skip
"""Words of comments with a better one in the field (default, is, contains, covers); findings may have them."""
NUMBER = r"[±-]?\d[\d.,]*"
UNIT = r"(?:[kMGTP]?(?:i?B|bit)(?:/s)?|[nµm]?s|%|[kMGT]? ?(?:IOPS|FLOP/s|[a-z]+/s)|[MG]?Hz|[MG]T/s)"
_COMMAND = re.compile(r"(?:hwdyno|lspci|numactl|tracepath|cat /sys)\b[^;]*|`[^`]*`|--[\w-]+(?: \S+)?")
_SENTENCE = re.compile(r"(?<=[.?!])\s+")
_PLURAL = re.compile(r"(?<![\d.,x=/:-])(?<!n = )\b1 (?!(?:is|was|times|x|has)\b)([a-z]+s)\b(?!/)")
_MANY = re.compile(
    r"(?<![\d.,])\b(?:[02-9]|\d{2,}) (operation|point|repeat|job|thread|core|processor|host|read|user)\b"
)
_QUANTITY = re.compile(rf"({NUMBER}) ({UNIT})(?![\w/])")
_NO_WORD = {"x", "×", "=", "/", "→", "-", "·"}


def split_sentences(text: str) -> list[str]:
    """The sentences of a text, without commands, citations and what the engine or the system reported."""
    bare = _COMMAND.sub("COMMAND", re.sub(r"(?:Source|Reason|Files|Faults|First): .*", "", text))
    return [sentence for sentence in _SENTENCE.split(bare) if sentence]


def split_words(sentence: str) -> list[str]:
    """Its words; a number with its unit is one, and a label or a formula in brackets counts as one too."""
    short = re.sub(r"\([^()]*\)", "", sentence)
    short = _QUANTITY.sub("N", short)
    return [word for word in short.split() if word not in _NO_WORD]


def find_faults(text: str) -> list[str]:
    """What is wrong with a text of a finding or of its advice; empty where it is in style."""
    found = []
    if "  " in text or text != text.strip():
        found.append("a double or outer space")
    if not re.match(r"[A-Z0-9]", text):
        found.append("it begins with neither a capital nor a number")
    if not re.match(r".*[.)\w`/'\"+]$", text, re.DOTALL):
        found.append("it has no end")
    lower = text.lower()
    found += [f"'{phrase}'" for phrase in STILTED if re.search(rf"(?<![\w-]){re.escape(phrase)}(?!\w)", lower)]
    for sentence in split_sentences(text):
        if len(split_words(sentence)) > MAX_WORDS:
            found.append(f"{len(split_words(sentence))} words: {sentence}")
        if not re.match(r"[A-Z0-9`]", sentence):
            found.append(f"a small letter begins: {sentence}")
    found += [f"plural: {match[0]}" for match in (*_PLURAL.finditer(text), *_MANY.finditer(text))]
    if re.search(rf"{NUMBER} ?([^\d\s.,]\S*) \({NUMBER} ?\1 to {NUMBER} ?\1\)", text):
        found.append("a unit three times")
    found += [f"twice with two units: {quantity}" for quantity in _twice(text)]
    return found


def _twice(text: str) -> list[str]:
    """Numbers that are printed with two different units of one kind, such as 1.5 GB and 1500 MB."""
    scale = {"": 1.0, "k": 1e3, "M": 1e6, "G": 1e9, "T": 1e12}
    found: dict[tuple[float, str], str] = {}
    twice = []
    for number, unit in _QUANTITY.findall(_COMMAND.sub("", text)):
        match = re.fullmatch(r"([kMGT]?)(B|B/s|bit/s|FLOP/s|Hz)", unit)
        if match is None or not number.strip("±-.,"):
            continue
        value = (round(float(number.strip("±,.").replace(",", "")) * scale[match[1]], 9), match[2])
        if found.setdefault(value, unit) != unit:
            twice.append(f"{number} {unit}")
    return twice
