"""Rules on definitions: no dead one, and no function over 60 lines without a reason."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping, Set
from dataclasses import dataclass, field

from tidy.sources import Module, Tree, dynamic_imports, walk

MAX_LINES = 60
REASON = "long because"
"""A comment with these words above a function or in its first lines excuses its length."""

_Key = tuple[str, str]
"""A definition: its module and its name; the module's code outside of all definitions has the name ``""``."""


@dataclass
class _Scope:
    """The names of a module: definitions and imports."""

    module: Module
    definitions: dict[str, list[ast.AST]] = field(default_factory=dict)
    imported: dict[str, _Key] = field(default_factory=dict)
    """A name -> what it was imported as: a definition, or a whole module (then the second part is empty)."""


def dead_definitions(tree: Tree, live: Set[str], allowed: Mapping[str, str]) -> list[str]:
    """Functions, classes and constants of live modules that no code of the package reaches, tests left out.

    ``allowed`` maps exceptions to their reasons; an exception that is used or gone is a violation too.
    """
    scopes = {name: _make_scope(tree.modules[name], tree) for name in live & tree.modules.keys()}
    scopes = {name: scope for name, scope in scopes.items() if scope.module.path.suffix == ".py"}
    dynamic = set().union(*(dynamic_imports(scope.module, tree) for scope in scopes.values()))
    attributes = {node.attr for scope in scopes.values() for node in scope.module.nodes(ast.Attribute)}
    waiting: list[_Key] = [(name, "") for name in scopes]
    # A module that a table imports is used through its attributes.
    waiting += [
        (name, word) for name in dynamic & scopes.keys() for word in scopes[name].definitions if word in attributes
    ]
    # A walked module is searched for its values.
    walked = {name for scope in scopes.values() if scope.module.walks for name in tree.children(scope.module.folder)}
    waiting += [(name, word) for name in walked & scopes.keys() for word in _values(scopes[name])]
    excused = [(name.rpartition(".")[0], name.rpartition(".")[2]) for name in allowed]
    reached = _reach(waiting, scopes, set())
    needless = [
        f"{'.'.join(key)}: it is used, or gone: drop its excuse"
        for key in excused
        if not _is_dead(key, scopes, reached)
    ]
    reached = _reach(excused, scopes, reached)
    dead = [
        f"{name}.{word}: nothing uses it"
        for name, scope in scopes.items()
        for word in scope.definitions
        if (name, word) not in reached and not (word.startswith("__") and word.endswith("__"))
    ]
    return sorted([*needless, *dead])


def _is_dead(key: _Key, scopes: Mapping[str, _Scope], reached: Set[_Key]) -> bool:
    return key[0] in scopes and key[1] in scopes[key[0]].definitions and key not in reached


def _reach(start: list[_Key], scopes: Mapping[str, _Scope], reached: Set[_Key]) -> set[_Key]:
    """The reached definitions and all that these need, directly or through others."""
    found = set(reached)
    waiting = list(start)
    while waiting:
        key = waiting.pop()
        if key not in found and key[0] in scopes:
            found.add(key)
            waiting += _uses(key, scopes)
    return found


def _uses(key: _Key, scopes: Mapping[str, _Scope]) -> Iterator[_Key]:
    """The definitions that a definition's code uses."""
    scope = scopes[key[0]]
    roots = scope.definitions.get(key[1], []) if key[1] else _loose(scope)
    for root in roots:
        for node in walk(root):
            if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load):
                yield from _meant(scope, node.id, scopes)
            elif isinstance(node, ast.Attribute):
                yield from _attribute(scope, node, scopes)


def _meant(scope: _Scope, name: str, scopes: Mapping[str, _Scope]) -> Iterator[_Key]:
    if name in scope.definitions:
        yield scope.module.name, name
    if name in scope.imported:
        yield from _origin(scope.imported[name], scopes)


def _origin(key: _Key, scopes: Mapping[str, _Scope]) -> Iterator[_Key]:
    """The definition of a name that packages may re-export."""
    for _ in range(9):
        scope = scopes.get(key[0])
        if scope is None or not key[1]:
            return
        if key[1] in scope.definitions:
            yield key
            return
        if key[1] not in scope.imported:
            return
        key = scope.imported[key[1]]


def _attribute(scope: _Scope, node: ast.Attribute, scopes: Mapping[str, _Scope]) -> Iterator[_Key]:
    """``module.name``, also through the package: ``package.module.name``."""
    words = [node.attr]
    value: ast.expr = node.value
    while isinstance(value, ast.Attribute):
        words.append(value.attr)
        value = value.value
    if not isinstance(value, ast.Name) or value.id not in scope.imported:
        return
    at, name = scope.imported[value.id]
    if name:
        return
    for word in reversed(words):
        if f"{at}.{word}" in scopes:
            at = f"{at}.{word}"
        else:
            yield from _origin((at, word), scopes)
            return


def _make_scope(module: Module, tree: Tree) -> _Scope:
    scope = _Scope(module)
    for node in module.tree.body:
        for name in _defines(node):
            scope.definitions.setdefault(name, []).append(node)
    for plain in module.nodes(ast.Import):
        for alias in plain.names:
            bound = alias.asname or alias.name.partition(".")[0]
            scope.imported[bound] = (alias.name if alias.asname else bound, "")
    for node in module.nodes(ast.ImportFrom):
        for alias in [] if node.level else node.names:
            whole = f"{node.module}.{alias.name}"
            key = (whole, "") if whole in tree.modules else (node.module or "", alias.name)
            scope.imported[alias.asname or alias.name] = key
    return scope


def _defines(node: ast.stmt) -> list[str]:
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        return [node.name]
    targets = node.targets if isinstance(node, ast.Assign) else [node.target] if isinstance(node, ast.AnnAssign) else []
    names = [part for target in targets for part in ([*target.elts] if isinstance(target, ast.Tuple) else [target])]
    return [name.id for name in names if isinstance(name, ast.Name)]


def _loose(scope: _Scope) -> list[ast.AST]:
    """The module's statements that define nothing."""
    return [
        node
        for node in scope.module.tree.body
        if not _defines(node) and not isinstance(node, ast.Import | ast.ImportFrom)
    ]


def _values(scope: _Scope) -> list[str]:
    """The public names of a module that are neither functions nor classes."""
    plain = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
    return [
        name
        for name, nodes in scope.definitions.items()
        if not name.startswith("_") and not any(isinstance(node, plain) for node in nodes)
    ]


def dead_methods(tree: Tree, live: Set[str], allowed: Mapping[str, str]) -> list[str]:
    """Methods and properties whose name no code of the package reads from any object; ``allowed`` names exceptions."""
    modules = [tree.modules[name] for name in live & tree.modules.keys()]
    read: set[str] = set()
    prefixes: set[str] = set()
    for module in modules:
        read |= {node.attr for node in module.nodes(ast.Attribute)}
        for call in module.nodes(ast.Call):
            if getattr(call.func, "id", "") == "getattr" and len(call.args) > 1:
                first = next(iter(getattr(call.args[1], "values", [call.args[1]])), None)
                prefixes.add(str(getattr(first, "value", "")))
    read |= set(re.findall(r"\.(\w+)", "".join(path.read_text() for path in tree.root.rglob("*.j2"))))
    dead = {
        f"{module.name}.{node.name}.{part.name}"
        for module in modules
        for node in module.nodes(ast.ClassDef)
        if not _overrides(node)
        for part in node.body
        if isinstance(part, ast.FunctionDef | ast.AsyncFunctionDef)
        and part.name not in read
        and not part.name.startswith(("__", *filter(None, prefixes)))
    }
    needless = [f"{name}: it is used, or gone: drop its excuse" for name in allowed.keys() - dead]
    return sorted([*needless, *(f"{name}: nothing reads it" for name in dead - allowed.keys())])


def _overrides(node: ast.ClassDef) -> bool:
    """Whether a class has a base from another package, which may call its methods."""
    return any(isinstance(base, ast.Attribute) for base in node.bases)


def long_functions(tree: Tree, excused: Mapping[str, str]) -> list[str]:
    """Functions over 60 lines that give no reason: neither a comment nor one in ``excused`` by their whole name."""
    found: dict[str, int] = {}
    for module in tree.modules.values():
        lines = module.text.splitlines()
        for node in module.functions:
            near = lines[max(0, node.lineno - 2) : node.lineno + 1]
            if not any(REASON in line and "#" in line for line in near):
                name, lines_of = f"{module.name}.{node.name}", (node.end_lineno or 0) - node.lineno + 1
                # Two classes of one module may have methods of one name.
                found[name] = max(lines_of, found.get(name, 0))
    return too_long(found, excused)


def too_long(lengths: Mapping[str, int], excused: Mapping[str, str]) -> list[str]:
    """The functions over ``MAX_LINES`` lines, and the excuses that no one needs."""
    long = {name: count for name, count in lengths.items() if count > MAX_LINES}
    found = [f"{name}: {count} lines and no reason" for name, count in long.items() if name not in excused]
    return found + [f"{name}: it is short, or gone: drop its excuse" for name in excused.keys() - long.keys()]
