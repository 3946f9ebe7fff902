"""Takes the calls that the tests make: a plugin of pytest, for a product that says which function it enters."""

from __future__ import annotations

import ast
import builtins
import json
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

import pytest
from mutants.changes import ROOT, module_of

from calls.written import Tree, UnwritableError, Writer

ENTERED = "__hwdyno_entered__"
"""What the product calls while calls are taken, first in each function."""
OF_A_TEST, OF_A_FUNCTION = 40, 150
"""A test's first calls of a function, of which the first, second, fourth and so on are taken; and those kept of it."""
TRIED = 1500
LONGEST = 30_000
"""Of a call, in characters."""


def entering(path: str) -> ast.Module:
    """A module whose functions say that they are entered, with their arguments."""
    tree = ast.parse((ROOT / path).read_text())
    _enter(tree.body, f"{module_of(path)}:")
    return ast.fix_missing_locations(tree)


def _enter(statements: list[ast.stmt], prefix: str) -> None:
    for one in statements:
        if isinstance(one, ast.ClassDef):
            _enter(one.body, f"{prefix}{one.name}.")
        elif isinstance(one, ast.FunctionDef) and not one.name.startswith("__"):
            # A generator is entered when it is first asked, with its arguments as they are.
            arguments = ast.Call(ast.Name("locals", ast.Load()), [], [])
            called = ast.Expr(ast.Call(ast.Name(ENTERED, ast.Load()), [ast.Constant(prefix + one.name), arguments], []))
            has_text = isinstance(one.body[0], ast.Expr) and isinstance(one.body[0].value, ast.Constant)
            one.body.insert(int(has_text), ast.copy_location(called, one.body[0]))


class Taker:
    """Notes the calls of each function, each once."""

    def __init__(self) -> None:
        self.calls: dict[str, dict[str, Tree]] = {}
        """By function: the arguments by their text."""
        self.tried: Counter[str] = Counter()
        self.within: Counter[str] = Counter()
        self.on = False
        setattr(builtins, ENTERED, self.entered)

    @pytest.hookimpl(hookwrapper=True)
    def pytest_runtest_call(self, item: pytest.Item) -> Iterator[None]:
        self.within.clear()
        self.on = not getattr(getattr(item, "obj", None), "is_hypothesis_test", False)
        yield
        self.on = False

    def entered(self, name: str, values: Mapping[str, Any]) -> None:
        if not self.on:
            return
        self.within[name] += 1
        count = self.within[name]
        if count & (count - 1) or count > OF_A_TEST:
            return
        known = self.calls.setdefault(name, {})
        if self.tried[name] >= TRIED or len(known) >= OF_A_FUNCTION:
            return
        self.tried[name] += 1
        self.on = False
        try:
            written = Writer().arguments({one: value for one, value in values.items() if one != "__class__"})
            text = json.dumps(written)
            if len(text) <= LONGEST:
                known[text] = written
        except (UnwritableError, TypeError, ValueError, RecursionError):
            pass
        finally:
            self.on = True
