"""Rules on modules: allowed imports, no dead one, no circle, a docstring and a limited length."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Mapping, Set
from pathlib import Path

from tidy.sources import Module, Tree, ancestors, find_imports

MAX_LINES = 450
"""Lines of a file, of the product or of tests."""


def imported_rooms(module: Module, tree: Tree) -> set[str]:
    """The other rooms that a module imports."""
    return {tree.room(name) for name in find_imports(module, tree)} - {tree.room(module.name), "__init__"}


def forbidden_imports(tree: Tree, allowed: Mapping[str, Set[str]]) -> list[str]:
    """Imports that the table does not allow, and rooms that it does not have."""
    found = []
    for module in tree.modules.values():
        room = tree.room(module.name)
        if room in {"__init__", "__main__"}:
            continue
        if room not in allowed:
            found.append(f"{module.name}: {room} is a new room: say what it may import")
            continue
        extra = imported_rooms(module, tree) - allowed[room]
        found += [f"{module.name} must not import {room}" for room in sorted(extra)]
    return found


def unused_permissions(tree: Tree, allowed: Mapping[str, Set[str]]) -> list[str]:
    """Permissions that no module uses, and rooms in the table that do not exist."""
    used: dict[str, set[str]] = {}
    for module in tree.modules.values():
        used.setdefault(tree.room(module.name), set()).update(imported_rooms(module, tree))
    found = [f"{room} is no room" for room in sorted(allowed.keys() - used.keys())]
    for room in allowed.keys() & used.keys():
        found += [f"{room} does not import {other}" for other in sorted(allowed[room] - used[room])]
    return sorted(found)


def circles(needs: Mapping[str, Set[str]]) -> list[list[str]]:
    """The strongly connected components of more than one node, each sorted."""
    reached = {node: _reachable(node, needs) for node in needs}
    found = {
        tuple(sorted({node} | {other for other in reached[node] if node in reached.get(other, ())}))
        for node in needs
        if node in reached[node]
    }
    return [list(circle) for circle in sorted(found) if len(circle) > 1]


def _reachable(start: str, needs: Mapping[str, Set[str]]) -> set[str]:
    """What a node needs, directly or through others; the node itself only in a circle."""
    found: set[str] = set()
    waiting = list(needs.get(start, ()))
    while waiting:
        node = waiting.pop()
        if node not in found:
            found.add(node)
            waiting += needs.get(node, ())
    return found


def reached_modules(tree: Tree, entries: Iterable[str]) -> set[str]:
    """The modules that these import, directly or through others, with their packages."""
    found: set[str] = set()
    waiting = [name for name in entries if name in tree.modules]
    while waiting:
        name = waiting.pop()
        if name not in found:
            found.add(name)
            waiting += (find_imports(tree.modules[name], tree) | ancestors(name)) & tree.modules.keys()
    return found


def dead_modules(tree: Tree, entries: Iterable[str], outside: Tree, for_tests: Mapping[str, str]) -> list[str]:
    """Modules that no entry point reaches, except those of ``for_tests`` (each with a reason) that tests import.

    A module of ``for_tests`` that an entry point reaches, or that no test imports, is a violation too.
    """
    reached = reached_modules(tree, entries)
    wide = Tree(tree.root, {**outside.modules, **tree.modules})
    imported = set().union(*(find_imports(module, wide) for module in outside.modules.values()))
    tested = reached_modules(tree, for_tests.keys() & imported)
    found = [f"{name}: no entry point imports it" for name in tree.modules.keys() - reached - tested]
    found += [f"{name}: it is not for tests alone" for name in for_tests.keys() & reached]
    found += [f"{name}: no test or benchmark imports it" for name in for_tests.keys() - imported - tested]
    return sorted(found)


def dead_data(tree: Tree, suffixes: Set[str]) -> list[str]:
    """Data files that no module or template names, and whose folder no module lists."""
    files = [path for path in sorted(tree.root.rglob("*")) if path.suffix in suffixes]
    strings = set().union(*(module.strings for module in tree.modules.values()))
    walked = set().union(*(m.strings for m in tree.modules.values() if ".glob(" in m.text or ".iterdir(" in m.text))
    found = []
    for path in files:
        named = {path.name, path.stem} & strings or path.parent.name in walked
        included = any(path.name in other.read_text() for other in files if other != path and other.suffix == ".j2")
        if not named and not included:
            found.append(f"{path.relative_to(tree.root)}: nothing reads it")
    return found


def unopened(tree: Tree) -> list[str]:
    """Modules without a first sentence that says what they are for."""
    found = []
    for module in tree.modules.values():
        first = (ast.get_docstring(module.tree) or "").split("\n\n")[0]
        if module.path.suffix == ".py" and not first.endswith((".", "?")):
            found.append(f"{module.name}: open with one sentence: what it is for")
    return found


def too_long_files(paths: Iterable[Path], root: Path, excused: Mapping[str, str]) -> list[str]:
    """Files over ``MAX_LINES`` lines that have no reason in ``excused``, and the excuses that no file needs."""
    lengths = {str(path.relative_to(root)): len(path.read_text().splitlines()) for path in paths}
    long = {name: lines for name, lines in lengths.items() if lines > MAX_LINES}
    found = [f"{name}: {lines} lines; does it hold one thing?" for name, lines in long.items() if name not in excused]
    return found + [f"{name}: it is short, or gone: drop its excuse" for name in excused.keys() - long.keys()]


def packages_with_code(tree: Tree) -> list[str]:
    """Code in an ``__init__.py`` besides a docstring, imports, ``__all__``, ``__version__`` and a lazy lookup.

    Imports for types alone may be skipped without ``typing``, which takes long to import.
    """
    packages = [module for module in tree.modules.values() if module.is_package]
    return [
        f"{module.name}: line {node.lineno} is code: it belongs into a module with a name"
        for module in packages
        for node in module.tree.body
        if not _is_passed_on(node)
    ]


def _is_passed_on(node: ast.stmt) -> bool:
    """Whether a statement is a docstring, an import, one of the module's own names or its lazy lookup."""
    if isinstance(node, ast.Import | ast.ImportFrom):
        return True
    if isinstance(node, ast.Expr):
        return isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)
    if isinstance(node, ast.FunctionDef):
        return node.name in {"__getattr__", "__dir__"}
    if isinstance(node, ast.If):
        is_for_types = isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING"
        return is_for_types and all(isinstance(inner, ast.Import | ast.ImportFrom) for inner in node.body)
    return isinstance(node, ast.Assign) and all(
        isinstance(target, ast.Name) and target.id in {"__all__", "__version__", "TYPE_CHECKING"}
        for target in node.targets
    )
