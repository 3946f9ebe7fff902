"""Reads a tree of Python sources: its modules, what each imports, and which strings it holds."""

from __future__ import annotations

import ast
import gc
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from typing import TypeVar, cast

_Node = TypeVar("_Node", bound=ast.AST)


def walk(root: ast.AST) -> list[ast.AST]:
    """A node and all below it, in the order of ``ast.walk`` and in half of its time."""
    found = [root]
    # The list grows while it is walked.
    for node in found:
        for value in vars(node).values():
            if isinstance(value, list):
                found += [part for part in value if isinstance(part, ast.AST)]
            elif isinstance(value, ast.AST):
                found.append(value)
    return found


@dataclass(frozen=True)
class Module:
    """One Python file."""

    name: str
    """Dotted: ``hwdyno.cli.main``; a package has the name of its folder."""
    path: Path
    text: str

    @cached_property
    def tree(self) -> ast.Module:
        """The syntax tree, out of sight of the collector, which would walk all trees so far many times."""
        gc.disable()
        try:
            return ast.parse(self.text)
        finally:
            gc.freeze()
            gc.enable()

    @cached_property
    def _by_kind(self) -> dict[type[ast.AST], list[ast.AST]]:
        found: dict[type[ast.AST], list[ast.AST]] = {}
        for node in walk(self.tree):
            found.setdefault(type(node), []).append(node)
        return found

    def nodes(self, *kinds: type[_Node]) -> list[_Node]:
        """All nodes of the given kinds."""
        return [cast(_Node, node) for kind in kinds for node in self._by_kind.get(kind, ())]

    @property
    def functions(self) -> list[ast.FunctionDef | ast.AsyncFunctionDef]:
        """All functions and methods."""
        return [*self.nodes(ast.FunctionDef), *self.nodes(ast.AsyncFunctionDef)]

    @cached_property
    def strings(self) -> frozenset[str]:
        """All string constants, the fixed parts of f-strings too."""
        return frozenset(node.value for node in self.nodes(ast.Constant) if isinstance(node.value, str))

    @cached_property
    def walks(self) -> bool:
        """Whether it lists the modules of its folder."""
        return any(node.attr == "iter_modules" for node in self.nodes(ast.Attribute))

    @property
    def folder(self) -> str:
        """The package that it is, or that has it."""
        return self.name if self.is_package else self.name.rpartition(".")[0]

    @property
    def is_package(self) -> bool:
        """Whether the file is a folder's ``__init__.py``."""
        return self.path.name == "__init__.py"


@dataclass(frozen=True)
class Tree:
    """The modules of one folder by their names."""

    root: Path
    modules: dict[str, Module]
    level: int = 1
    """Parts of a name before that of its room."""

    def room(self, name: str) -> str:
        """The part of a module's name right below the package whose modules these are."""
        parts = name.split(".")
        return parts[self.level] if len(parts) > self.level else "__init__"

    def inside(self, room: str) -> Tree:
        """The modules of one room, as a tree of the rooms in it."""
        kept = {name: module for name, module in self.modules.items() if self.room(name) == room}
        return Tree(self.root / room, kept, self.level + 1)

    def children(self, package: str) -> set[str]:
        """The modules right below a package."""
        return {name for name in self.modules if name.rpartition(".")[0] == package}


def read_tree(root: Path, prefix: str = "") -> Tree:
    """All Python files below a folder, stubs of compiled modules too; ``prefix`` is the package that the folder is."""
    modules = {}
    stubs = [path for path in root.rglob("*.pyi") if not path.with_suffix(".py").exists()]
    for path in sorted([*stubs, *root.rglob("*.py")]):
        parts = [*prefix.split("."), *path.relative_to(root).with_suffix("").parts]
        name = ".".join(part for part in parts if part and part != "__init__")
        modules[name] = Module(name, path, path.read_text())
    return Tree(root, modules)


def find_imports(module: Module, tree: Tree) -> set[str]:
    """The tree's modules that a module imports: at its top, inside a function, or by a name that is a string."""
    return static_imports(module, tree) | dynamic_imports(module, tree)


def static_imports(module: Module, tree: Tree) -> set[str]:
    """The tree's modules that its import statements name."""
    found = {alias.name for node in module.nodes(ast.Import) for alias in node.names}
    for node in module.nodes(ast.ImportFrom):
        package = _absolute(module, node)
        wholes = {f"{package}.{alias.name}" for alias in node.names}
        # `from package import module` wants nothing that the package itself defines.
        found |= wholes if wholes <= tree.modules.keys() else {package, *wholes}
    return (found & tree.modules.keys()) - {module.name}


def dynamic_imports(module: Module, tree: Tree) -> set[str]:
    """The tree's modules that ``import_module`` gives it, or that it starts: ``-m NAME``, a neighbour's file name."""
    found = {f"{module.folder}.{text.removesuffix('.py')}" for text in module.strings if text.endswith(".py")}
    for call in module.nodes(ast.Call):
        if _is_import_module(call.func) and call.args:
            found |= _named(call.args[0], module, tree)
    literals: list[ast.List | ast.Tuple] = [*module.nodes(ast.List), *module.nodes(ast.Tuple)]
    for words in literals:
        found |= set(_programs(words.elts))
    return (found & tree.modules.keys()) - {module.name}


def ancestors(name: str) -> set[str]:
    """The packages that contain a module, which are imported with it."""
    parts = name.split(".")
    return {".".join(parts[:count]) for count in range(1, len(parts))}


def _absolute(module: Module, node: ast.ImportFrom) -> str:
    if not node.level:
        return node.module or ""
    parts = module.name.split(".")
    base = parts[: len(parts) - node.level + module.is_package]
    return ".".join([*base, node.module] if node.module else base)


def _is_import_module(function: ast.expr) -> bool:
    name = function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")
    return name in {"import_module", "__import__"}


def _programs(elements: list[ast.expr]) -> list[str]:
    """``python -m NAME`` as a list of arguments."""
    words = [getattr(element, "value", None) for element in elements]
    return [str(word) for flag, word in pairwise(words) if flag == "-m" and isinstance(word, str)]


def _named(argument: ast.expr, module: Module, tree: Tree) -> set[str]:
    """What ``import_module`` may import: its constant, what a table of names gives, or all of a walked folder."""
    if isinstance(argument, ast.Constant):
        return {str(argument.value)}
    if not isinstance(argument, ast.JoinedStr):
        return set()
    package = ""
    for part in argument.values:
        if isinstance(part, ast.Constant):
            package += str(part.value)
        elif (name := getattr(getattr(part, "value", None), "id", "")) in {"__name__", "__package__"}:
            package += module.name if name == "__name__" else module.folder
        else:
            break
    children = tree.children(package.rstrip("."))
    if module.walks:
        return children - {module.name}
    return {child for child in children if child.rpartition(".")[2] in module.strings}
