"""Finds the comments, the docstrings and the code of a Python file, in a twentieth of the time of ``tokenize``."""

from __future__ import annotations

import re
from collections.abc import Iterator

_TEXT = r'''"""(?:\\.|[^\\])*?"""|"(?:\\.|[^"\\\n])*"|\'\'\'(?:\\.|[^\\])*?\'\'\'|'(?:\\.|[^'\\\n])*\''''
_TOKEN = re.compile(rf"(?s)(\#[^\n]*)|(\b[a-zA-Z]{{1,2}})?({_TEXT})|[(\[{{]|[)\]}}]")
_BINDS = re.compile(r"\bfor\b|\blambda\b|:=")


def python_remarks(source: str) -> Iterator[tuple[bool, str]]:
    """The comments and docstrings, each with whether it documents an item; a comment of several lines is one text."""
    block, last, depth = "", -2, 0
    for found in _TOKEN.finditer(source):
        comment, prefix, text = found.groups()
        if comment is not None:
            row = source.count("\n", 0, found.start())
            if row - 1 != last and block:
                yield False, block.strip()
                block = ""
            block, last = f"{block} {comment.strip('# ')}", row
        elif text is None:
            depth += 1 if found[0] in "([{" else -1
        elif not depth and "f" not in (prefix or "").lower():
            before = source[source.rfind("\n", 0, found.start()) + 1 : found.start()]
            if not before.strip():
                quotes = 3 if text[:3] in {'"""', "'''"} else 1
                yield True, " ".join(text[quotes:-quotes].split())
    if block:
        yield False, block.strip()


def bare_code(source: str) -> str:
    """The source without comments and texts, but for those f-strings whose expressions bind a name."""

    def bare(found: re.Match[str]) -> str:
        comment, prefix, text = found.groups()
        if comment is not None:
            return ""
        is_kept = text is None or ("f" in (prefix or "").lower() and _BINDS.search(text))
        return found[0] if is_kept else '""'

    return _TOKEN.sub(bare, source)
