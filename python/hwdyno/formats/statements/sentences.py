"""Splits a text into the sentences of its prose."""

from __future__ import annotations

import re
from collections.abc import Iterator

LONGEST_SENTENCE = 600
_PARTS = re.compile(r"\n[ \t]*\n|\n(?=[ \t]*(?:[-*+#|>]|\d{1,2}\.)[ \t])|(?<=[.!?])[\"')*]*\s+(?=[\"'(*]*[A-Z`])")
_DENIED = re.compile(r"\b(?:no|not|never|neither|cannot|isn|doesn|don|wrong|myth|contrary|instead of)\b", re.I)


def split_sentences(text: str) -> Iterator[str]:
    """Each sentence of at most 600 characters, on one line; an item of a list and a row of a table are one each."""
    begin = 0
    for match in _PARTS.finditer(text):
        if match.start() - begin <= LONGEST_SENTENCE and (words := " ".join(text[begin : match.start()].split())):
            yield words
        begin = match.end()
    if len(text) - begin <= LONGEST_SENTENCE and (words := " ".join(text[begin:].split())):
        yield words


def is_denied(sentence: str) -> bool:
    """Whether a sentence may deny what it names."""
    return _DENIED.search(sentence) is not None
