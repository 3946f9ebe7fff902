"""Single-line changes of a module: operators, constants, comparisons and removed statements, by its syntax tree."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
ROOMS = ("findings", "curves", "ceilings", "statistics", "samples.py")
"""What is changed, in ``python/hwdyno``."""
_BOUNDARY: dict[type[ast.cmpop], type[ast.cmpop]] = {ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt}
_OPPOSITE: dict[type[ast.cmpop], type[ast.cmpop]] = {
    **{ast.Lt: ast.GtE, ast.LtE: ast.Gt, ast.Gt: ast.LtE, ast.GtE: ast.Lt, ast.Eq: ast.NotEq, ast.NotEq: ast.Eq},
    **{ast.In: ast.NotIn, ast.NotIn: ast.In, ast.Is: ast.IsNot, ast.IsNot: ast.Is},
}
_OTHER = {
    **{ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Div, ast.Div: ast.Mult, ast.FloorDiv: ast.Mult},
    **{ast.Mod: ast.Mult, ast.Pow: ast.Mult, ast.BitOr: ast.BitAnd, ast.BitAnd: ast.BitOr},
}
GUARD = 1e-9
_COUNTS = {"len", "sum", "round", "count"}
"""Functions whose results are whole numbers, so that ``<`` and ``<=`` differ."""


def module_of(path: str) -> str:
    """The name that a file is imported by."""
    return path.removeprefix("python/").removesuffix(".py").replace("/", ".").removesuffix(".__init__")


@dataclass(frozen=True)
class Change:
    """One change of one line."""

    path: str
    """Of the file, from the root of the project."""
    number: int
    """Among the changes of the file."""
    line: int
    what: str
    text: str
    """The line, without its indent."""
    of_threshold: bool = False
    """Whether it is one of ``thresholds``."""

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: {self.what} in `{self.text}`"

    @property
    def module(self) -> str:
        """The name that the file is imported by."""
        return module_of(self.path)

    def code(self) -> ast.Module:
        """The module's syntax tree with this change."""
        tree = ast.parse((ROOT / self.path).read_text())
        (_of_thresholds if self.of_threshold else _edits)(tree)[self.number].apply()
        return ast.fix_missing_locations(tree)


@dataclass(frozen=True)
class _Edit:
    line: int
    what: str
    apply: Callable[[], object]


def files() -> list[str]:
    """The files that are changed, from the root of the project."""
    source = ROOT / "python/hwdyno"
    found = [
        path for room in ROOMS for path in ([source / room] if room.endswith(".py") else (source / room).glob("*.py"))
    ]
    return sorted(str(path.relative_to(ROOT)) for path in found)


def changes(path: str) -> list[Change]:
    """All changes of a file."""
    source = (ROOT / path).read_text()
    lines = source.splitlines()
    return [
        Change(path, number, edit.line, edit.what, lines[edit.line - 1].strip())
        for number, edit in enumerate(_edits(ast.parse(source)))
    ]


def thresholds(path: str) -> list[Change]:
    """Every named number of a module a tenth higher and a tenth lower, or by one where it is a small count."""
    source = (ROOT / path).read_text()
    lines = source.splitlines()
    return [
        Change(path, number, edit.line, edit.what, lines[edit.line - 1].strip(), of_threshold=True)
        for number, edit in enumerate(_of_thresholds(ast.parse(source)))
    ]


def _of_thresholds(tree: ast.Module) -> list[_Edit]:
    named = [one for one in tree.body if isinstance(one, ast.Assign | ast.AnnAssign) and one.value is not None]
    found = []
    for one in named:
        values = one.value.elts if isinstance(one.value, ast.Tuple) else [one.value]
        for value in values:
            number = value.left if isinstance(value, ast.BinOp) else value
            if not isinstance(number, ast.Constant) or isinstance(number.value, bool):
                continue
            if isinstance(number.value, int | float) and not _is_guard(number.value):
                found += [_edit(number, f"{number.value!r} to {other!r}", _attribute(number, "value", other))
                          for other in _near(number.value)]  # fmt: skip
    return found


def _near(value: float) -> tuple[float, float]:
    if isinstance(value, int):
        step = max(1, round(0.1 * value))
        return value + step, value - step
    return 1.1 * value, 0.9 * value


def _edits(tree: ast.Module) -> list[_Edit]:
    """The edits of a tree, always in the same order."""
    found = [edit for node in _walk(tree) for edit in (*_of_expression(node), *_of_body(node))]
    return sorted(found, key=lambda edit: edit.line)


def _walk(node: ast.AST) -> Iterator[ast.AST]:
    """The nodes that do something: no annotation, no import for types, no decorator, no check of equal lengths."""
    yield node
    for name, field in ast.iter_fields(node):
        if name in {"annotation", "returns", "decorator_list"} or (
            isinstance(node, ast.keyword) and node.arg == "strict"
        ):
            continue
        for child in field if isinstance(field, list) else [field]:
            if isinstance(child, ast.If) and isinstance(child.test, ast.Name) and child.test.id == "TYPE_CHECKING":
                continue
            if isinstance(child, ast.AST):
                yield from _walk(child)


def _of_expression(node: ast.AST) -> Iterator[_Edit]:
    if isinstance(node, ast.Compare):
        for at, operator in enumerate(node.ops):
            whole = any(map(_is_whole, (node.left, *node.comparators)))
            opposite, boundary = _OPPOSITE[type(operator)], _BOUNDARY.get(type(operator))
            for made in [opposite, boundary] if whole and boundary else [opposite]:
                yield _edit(node, f"{_word(operator)} to {made.__name__}", _setter(node.ops, at, made()))
    elif isinstance(node, ast.BinOp | ast.AugAssign) and type(node.op) in _OTHER and not _is_text(node):
        other = _OTHER[type(node.op)]()
        yield _edit(node, f"{_word(node.op)} to {_word(other)}", _attribute(node, "op", other))
    elif isinstance(node, ast.BoolOp):
        joined = ast.Or() if isinstance(node.op, ast.And) else ast.And()
        yield _edit(node, f"{_word(node.op)} to {_word(joined)}", _attribute(node, "op", joined))
    elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        yield _edit(node, "no minus", _attribute(node, "op", ast.UAdd()))
    elif isinstance(node, ast.Constant) and isinstance(node.value, bool | int | float) and not _is_guard(node.value):
        value = _another(node.value)
        yield _edit(node, f"{node.value!r} to {value!r}", _attribute(node, "value", value))


def _of_body(node: ast.AST) -> Iterator[_Edit]:
    """Removed statements; a name that is set nowhere else would only fail."""
    for name in ("body", "orelse", "finalbody"):
        statements = getattr(node, name, None)
        if not isinstance(statements, list):
            continue
        for at, one in enumerate(statements):
            called = isinstance(one, ast.Expr) and isinstance(one.value, ast.Call | ast.Yield | ast.YieldFrom)
            left = isinstance(one, ast.AugAssign | ast.Raise | ast.Continue | ast.Break)
            guard = isinstance(one, ast.If) and not one.orelse and len(one.body) == 1
            if called or left or guard:
                yield _edit(one, "removed", _setter(statements, at, ast.copy_location(ast.Pass(), one)))


def _is_guard(value: float) -> bool:
    """Whether a constant only keeps a division from failing: a quarter more of it is as little."""
    return isinstance(value, float) and 0 < abs(value) <= GUARD


def _is_whole(node: ast.expr) -> bool:
    if isinstance(node, ast.Constant):
        return type(node.value) is int
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in _COUNTS


def _is_text(node: ast.AST) -> bool:
    return any(isinstance(one, ast.JoinedStr) or isinstance(getattr(one, "value", 0), str) for one in ast.walk(node))


def _another(value: float) -> float:
    """A constant that is clearly another one."""
    if isinstance(value, bool):
        return not value
    if isinstance(value, int):
        return value + 1
    return 1.25 * value if value else 1.0


def _word(node: ast.AST) -> str:
    return type(node).__name__


def _edit(node: ast.AST, what: str, apply: Callable[[], object]) -> _Edit:
    return _Edit(getattr(node, "lineno", 1), what, apply)


def _setter(of: list[Any], at: int, to: ast.AST) -> Callable[[], object]:
    return lambda: of.__setitem__(at, to)


def _attribute(of: ast.AST, name: str, to: object) -> Callable[[], object]:
    return lambda: setattr(of, name, to)
