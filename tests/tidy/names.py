"""A rule on names: words that mean nothing in this field are no part of an identifier."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from tidy.rust import Source
from tidy.sources import Module

# Verbs of speech and of giving do not say what a value is; `own`, `beside` and `otherwise` only say how it relates to
# another one.
WORDS = frozenset(
    {
        *("told", "tell", "tells", "said", "say", "asked", "ask", "spoken", "speak", "speaks", "speech", "heard"),
        *("held", "handed", "hands", "own", "beside", "otherwise", "moot", "mend", "mends", "thing", "things", "stuff"),
    }
)

_PART = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])")
_RUST_ITEM = re.compile(r"\b(?:fn|struct|enum|union|trait|mod|const|static|type)\s+(\w+)")
_RUST_LET = re.compile(r"\blet\s+(?:mut\s+)?(\w+)|\blet\s+\(([^)=]*)\)|\bfor\s+\(?([^{}=]*?)\)?\s+in\b|\|([^|{}()]*)\|")
_RUST_TYPED = re.compile(r"\b([a-z_]\w*)\s*:(?!:)")


def vague(names: Iterator[str] | set[str]) -> list[str]:
    """The identifiers with a part that is a forbidden word."""
    return sorted(name for name in set(names) if {part.lower() for part in _PART.findall(name)} & WORDS)


def python_names(module: Module) -> Iterator[str]:
    """The identifiers that a module introduces: its own name, functions, classes, parameters, variables, fields.

    The name of a test is a sentence, and none of them.
    """
    yield module.name.rpartition(".")[2]
    yield from (node.name for node in module.functions if not node.name.startswith("test_"))
    yield from (node.name for node in module.nodes(ast.ClassDef))
    yield from (node.arg for node in module.nodes(ast.arg))
    yield from (node.id for node in module.nodes(ast.Name) if isinstance(node.ctx, ast.Store))
    yield from (node.attr for node in module.nodes(ast.Attribute) if isinstance(node.ctx, ast.Store))
    yield from (node.asname for node in module.nodes(ast.alias) if node.asname)


def rust_names(source: Source) -> Iterator[str]:
    """The identifiers that a file introduces: its own name, items, parameters, fields and variables."""
    yield source.path.stem
    yield from _RUST_ITEM.findall(source.code)
    yield from _RUST_TYPED.findall(source.code)
    for groups in _RUST_LET.findall(source.code):
        yield from re.findall(r"\w+", " ".join(groups))


# Participles that do not end in -ed, and words that end so and are none.
PARTICIPLES = frozenset(
    {
        *("begun", "bought", "bound", "broken", "brought", "built", "caught", "chosen", "drawn", "driven", "fed"),
        *("found", "given", "gone", "got", "grown", "hidden", "kept", "known", "laid", "lost", "made", "meant", "paid"),
        *("seen", "sent", "shown", "sold", "spent", "stuck", "sunk", "swept", "taken", "taught", "thought", "torn"),
        *("understood", "won", "worn", "wound", "woven", "written"),
    }
)
NO_PARTICIPLES = frozenset(
    {"bed", "bound", "embed", "exceed", "feed", "indeed", "need", "proceed", "seed", "shed", "speed", "succeed"}
)


def is_bare_participle(name: str) -> bool:
    """Whether a name is one word that says how something is, and neither what is done nor what comes out."""
    word = name.strip("_")
    return word not in NO_PARTICIPLES and (word in PARTICIPLES or (word.endswith("ed") and "_" not in word))


def unnamed_results(module: Module) -> list[str]:
    """The functions that are called ``…_of`` or by a bare participle: a verb or a noun says what comes out."""
    return sorted(
        {node.name for node in module.functions if node.name.endswith("_of") or is_bare_participle(node.name)}
    )
