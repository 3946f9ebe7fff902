"""A rule on files: what makes, replaces or removes one goes through safe_files, which alone calls the system for it."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator, Mapping

from tidy.rust import Source
from tidy.sources import Module

# By module: functions that make, replace or remove files.
_FUNCTIONS = {
    "os": {
        *("remove", "unlink", "rename", "renames", "replace", "rmdir", "removedirs", "makedirs", "mkdir", "link"),
        *("symlink", "truncate", "mkfifo", "mknod", "chmod"),
    },
    "shutil": {"rmtree", "move", "copy", "copy2", "copyfile", "copytree", "copymode", "make_archive", "unpack_archive"},
    "tempfile": {
        *("TemporaryDirectory", "TemporaryFile", "NamedTemporaryFile", "SpooledTemporaryFile", "mkdtemp", "mkstemp"),
        "mktemp",
    },
    "sqlite3": {"connect"},
}
# Of pathlib.Path, and of nothing else here.
_METHODS = {
    *("write_text", "write_bytes", "unlink", "rmdir", "mkdir", "rename", "touch", "symlink_to", "hardlink_to", "chmod"),
}
_WRITING_FLAGS = {"O_WRONLY", "O_RDWR", "O_CREAT", "O_TRUNC", "O_APPEND", "O_TMPFILE"}
_WRITING_MODE = frozenset("wax+")

_RUST = re.compile(
    r"\bfs::(write|rename|remove_file|remove_dir_all|remove_dir|create_dir_all|create_dir|copy|hard_link"
    r"|set_permissions)\b"
    r"|\bFile::(create_new|create)\b"
    r"|\b(DirBuilder|symlink)\b"
    r"|\b(renameat_with|renameat|unlinkat|mkdirat|linkat|symlinkat|mknodat|chmodat)\b"
    r"|\blibc::(open|openat|creat|unlink|unlinkat|rename|renameat|renameat2|mkdir|mkdirat|rmdir|truncate|link|linkat)\b"
    r"|\brustix::fs::(rename|unlink|mkdir|rmdir|link)\b"
    r"|\bOFlags::(CREATE|WRONLY|RDWR|TRUNC|APPEND|TMPFILE)\b"
)
_RUST_OPTIONS = re.compile(r"\b(?:OpenOptions::new|File::options)\b[^;]*?\.(write|append|create|create_new|truncate)\(")


def python_calls(module: Module) -> Iterator[tuple[int, str]]:
    """The line and the name of each use of what makes, replaces or removes files."""
    names = {
        alias.asname or alias.name: (node.module or "", alias.name)
        for node in module.nodes(ast.ImportFrom)
        for alias in node.names
        if alias.name in _FUNCTIONS.get(node.module or "", ())
    }
    modules = {alias.asname or alias.name: alias.name for node in module.nodes(ast.Import) for alias in node.names}
    for name in module.nodes(ast.Name):
        if isinstance(name.ctx, ast.Load) and name.id in names:
            yield name.lineno, ".".join(names[name.id])
    for node in module.nodes(ast.Attribute):
        home = modules.get(node.value.id, "") if isinstance(node.value, ast.Name) else ""
        if node.attr in _FUNCTIONS.get(home, ()):
            yield node.lineno, f"{home}.{node.attr}"
        elif node.attr in _METHODS and home not in _FUNCTIONS and isinstance(node.ctx, ast.Load):
            yield node.lineno, node.attr
    for call in module.nodes(ast.Call):
        if found := _opened(call):
            yield call.lineno, found
        # Path.replace has one argument, str.replace two, and dataclasses.replace names all but the first.
        if isinstance(call.func, ast.Attribute) and call.func.attr == "replace" and len(call.args) == 1:
            home = call.func.value.id if isinstance(call.func.value, ast.Name) else ""
            if not call.keywords and modules.get(home) not in _FUNCTIONS:
                yield call.lineno, "replace"


def _opened(call: ast.Call) -> str:
    """What a call opens for writing with; empty for one that opens nothing, or to read."""
    if isinstance(call.func, ast.Name) and call.func.id == "open":
        return "open" if _writes(call, 1, unknown=True) else ""
    if not isinstance(call.func, ast.Attribute):
        return ""
    name, home = call.func.attr, call.func.value
    if name == "fdopen":
        return ""  # A descriptor that is open already.
    if name == "open" and isinstance(home, ast.Name) and home.id == "os":
        flags = {node.attr for argument in call.args for node in ast.walk(argument) if isinstance(node, ast.Attribute)}
        return "os.open" if flags & _WRITING_FLAGS else ""
    # A path's mode comes first, that of gzip, io and codecs after the path.
    return "open" if name == "open" and any(_writes(call, place, unknown=False) for place in (0, 1)) else ""


def _writes(call: ast.Call, place: int, *, unknown: bool) -> bool:
    """Whether the mode of an ``open`` writes; ``unknown`` is the answer for a mode that is no literal."""
    given = [keyword.value for keyword in call.keywords if keyword.arg == "mode"] or call.args[place : place + 1]
    if not given:
        return False
    if isinstance(given[0], ast.Constant) and isinstance(given[0].value, str):
        mode = given[0].value
        return set(mode) <= _WRITING_MODE | frozenset("rbt") and bool(set(mode) & _WRITING_MODE)
    return unknown


def rust_calls(source: Source) -> Iterator[tuple[int, str]]:
    """The same of a Rust file outside of its tests."""
    for pattern in (_RUST, _RUST_OPTIONS):
        for found in pattern.finditer(source.code):
            name = next(group for group in found.groups() if group)
            yield source.code.count("\n", 0, found.start()) + 1, name


def outside_of_safe_files(
    found: Iterable[tuple[str, int, str]], homes: Iterable[str], excused: Mapping[tuple[str, str], str]
) -> list[str]:
    """Uses outside of ``homes`` that ``excused`` lacks (by module and name), and excuses without a use."""
    homes, used, wrong = tuple(homes), set(), []
    for module, line, name in found:
        if any(module == home or module.startswith(f"{home}::") for home in homes):
            continue
        if (module, name) in excused:
            used.add((module, name))
        else:
            wrong.append(f"{module}: line {line}: {name} goes around safe_files (safe_files.py, safe_files.rs)")
    unused = [f"{module}: {name} is excused, and is not there" for module, name in set(excused) - used]
    return sorted(wrong) + sorted(unused)
