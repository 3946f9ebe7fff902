"""Rules on Rust sources: no circle of files, no dead public item, no long function, no unsafe outside its modules."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from tidy.definitions import REASON, too_long

_COMMENT_OR_TEXT = re.compile(
    r"""//[^\n]* | /\*.*?\*/ | r(\#*)".*?"\1 | b?"(?:\\.|[^"\\])*" | b?'(?:\\(?:x..|u\{[^}]*\}|.)|[^'\\\n])'""",
    re.VERBOSE | re.DOTALL,
)
_TEST = re.compile(r"#\[cfg\(test\)\]")
_TEST_FILE = re.compile(r"#\[cfg\(test\)\]\s*mod\s+(tests)\s*;")
_CHILD = re.compile(r"\bmod\s+(\w+)\s*;")
_ALIAS = re.compile(r'#\[path = "([^"]+)"\]\s*(?:pub(?:\([^)]*\))?\s+)?mod\s+(\w+)\s*;')
_USE = re.compile(r"\buse\s+((?:crate|super|self)\b[^;]*);")
_PATH = re.compile(r"\b(?:crate|super|self)(?:::\w+)+")
_PUBLIC = re.compile(
    r"\bpub(?:\([^)]*\))?\s+(?:(?:const|async|unsafe|extern)\s+)*(?:fn|struct|enum|union|trait|type|const|static)\s+(\w+)"
)
_FUNCTION = re.compile(r"^[ \t]*(?:pub(?:\([^)]*\))?\s+)?(?:(?:const|async|unsafe|extern)\s+)*fn\s+(\w+)", re.MULTILINE)


@dataclass(frozen=True)
class Source:
    """One Rust file."""

    name: str
    """Its module path: ``crate::storage::job``; ``crate`` for ``lib.rs``."""
    path: Path
    text: str

    @cached_property
    def code(self) -> str:
        """The text without comments, literals and test items; line numbers stay the same."""
        bare = _COMMENT_OR_TEXT.sub(lambda found: "\n" * found[0].count("\n") or " ", self.text)
        while found := _TEST.search(bare):
            brace, semicolon = bare.find("{", found.end()), bare.find(";", found.end())
            end = semicolon + 1 if 0 <= semicolon < brace or brace < 0 else _closing(bare, brace)
            bare = bare[: found.start()] + "\n" * bare.count("\n", found.start(), end) + bare[end:]
        return bare

    @cached_property
    def children(self) -> dict[str, list[str]]:
        """The modules that it declares, each with the files that ``#[path]`` gives it."""
        found: dict[str, list[str]] = {name: [] for name in _CHILD.findall(self.code)}
        # The file's path is that from the folder of this one.
        folder = self.name.split("::")[: None if self.path.name in {"lib.rs", "mod.rs"} else -1]
        for file, name in _ALIAS.findall(self.text):
            found.setdefault(name, []).append("::".join([*folder, *file.removesuffix(".rs").split("/")]))
        return found


def read_crate(source: Path) -> dict[str, Source]:
    """The files of a crate's ``src`` by module path, without files of tests; a program below ``bin`` is no module."""
    found = {}
    for path in sorted(source.rglob("*.rs")):
        parts = list(path.relative_to(source).with_suffix("").parts)
        if parts[0] == "bin":
            name = "bin::" + "::".join(parts[1:])
        else:
            name = "::".join(["crate", *(part for part in parts if part not in {"lib", "mod", "main"})])
        found[name] = Source(name, path, path.read_text())
    tests = {f"{name}::{child}" for name, source in found.items() for child in _TEST_FILE.findall(source.text)}
    return {name: source for name, source in found.items() if name not in tests}


def find_uses(source: Source, crate: Mapping[str, Source]) -> set[str]:
    """The files whose items a file uses, in ``use`` or in a path; a ``mod`` declaration is no use.

    The crate's root is left out, because everything may use its re-exports.
    """
    paths = [path for found in _USE.finditer(source.code) for path in _spread(found[1])]
    remaining = _USE.sub("", source.code)
    paths += [found[0].split("::") for found in _PATH.finditer(remaining)]
    for child in source.children:
        paths_of_child = re.findall(rf"(?<![\w:]){child}((?:::\w+)+|::\{{[^;]*\}})", remaining)
        paths += [["self", *path] for found in paths_of_child for path in _spread(child + found)]
    files = {file for path in paths for file in _find_files(path, source, crate)}
    return files - {source.name, "crate"}


def _spread(text: str) -> Iterator[list[str]]:
    """Expand a use tree: ``a::{b, c::{d, e}}`` gives a::b, a::c::d and a::c::e."""
    text = re.sub(r"\s+as\s+\w+|\s", "", text)
    head, brace, body = text.partition("{")
    start = [part for part in head.split("::") if part]
    if not brace:
        yield start
        return
    depth, part = 0, ""
    for letter in body[: body.rindex("}")] + ",":
        depth += (letter == "{") - (letter == "}")
        if letter == "," and not depth:
            if part:
                yield from ([*start, *tail] for tail in _spread(part))
            part = ""
        else:
            part += letter


def _find_files(path: list[str], source: Source, crate: Mapping[str, Source]) -> list[str]:
    """The file of a path's longest prefix that is a module, or the files that ``#[path]`` gives that module."""
    at = ["crate"] if path[0] == "crate" else source.name.split("::")
    for word in path:
        here = crate.get("::".join(at))
        if word == "super":
            at = at[:-1]
        elif word not in {"crate", "self"}:
            if here and here.children.get(word):
                return here.children[word]
            if "::".join([*at, word]) not in crate:
                break
            at = [*at, word]
    return ["::".join(at)] if "::".join(at) in crate else []


def dead_public(crates: Iterable[Mapping[str, Source]]) -> list[str]:
    """Public items whose name no code of the crates uses outside of tests."""
    sources = [source for crate in crates for source in crate.values()]
    words: Counter[str] = Counter()
    for source in sources:
        words.update(re.findall(r"\w+", source.code))
    defined = [(source, name) for source in sources for name in _PUBLIC.findall(source.code)]
    times = Counter(name for _, name in defined)
    return sorted(f"{source.name}::{name}" for source, name in defined if words[name] <= times[name])


def long_functions(crate: Mapping[str, Source], excused: Mapping[str, str]) -> list[str]:
    """Functions over 60 lines that give no reason: neither a comment nor one in ``excused`` by their whole path."""
    found: dict[str, int] = {}
    for source in crate.values():
        lines = source.text.splitlines()
        for match in _FUNCTION.finditer(source.code):
            brace, semicolon = source.code.find("{", match.end()), source.code.find(";", match.end())
            if brace < 0 or 0 <= semicolon < brace:
                continue
            first = source.code.count("\n", 0, match.start(1))
            if not any(REASON in line and "//" in line for line in lines[max(0, first - 3) : first + 2]):
                lines_of = source.code.count("\n", match.start(1), _closing(source.code, brace)) + 1
                name = f"{source.name}::{match[1]}"
                # Two types of one file may have methods of one name.
                found[name] = max(lines_of, found.get(name, 0))
    return too_long(found, excused)


def unsafe_outside(crate: Mapping[str, Source], homes: Mapping[str, str]) -> list[str]:
    """Files with ``unsafe`` outside of ``homes``, and homes without any.

    ``homes`` maps modules, with all modules below them, to the reason.
    """
    unsafe = {source.name for source in crate.values() if re.search(r"\bunsafe\b", source.code)}
    inside = {home: {name for name in unsafe if name == home or name.startswith(f"{home}::")} for home in homes}
    outside = unsafe.difference(*inside.values())
    found = [f"{name}: unsafe stands in sys and in the SIMD loops alone" for name in sorted(outside)]
    return found + [f"{home}: it holds nothing unsafe" for home, names in inside.items() if not names]


def _closing(code: str, brace: int) -> int:
    """The position after the brace that closes the one at ``brace``."""
    depth = 0
    for found in re.compile(r"[{}]").finditer(code, brace):
        depth += 1 if found[0] == "{" else -1
        if not depth:
            return found.end()
    return len(code)
