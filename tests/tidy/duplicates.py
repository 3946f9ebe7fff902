"""Rules on one name for one thing: classes, files of two rooms, and names of the standard library."""

from __future__ import annotations

import ast
import sys
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping

from tidy.sources import Module, Tree


def repeated_classes(tree: Tree, excused: Mapping[str, str]) -> list[str]:
    """Class names that another module gives to a class or to a type too, and excuses that nothing needs."""
    classes: dict[str, set[str]] = defaultdict(set)
    types: dict[str, set[str]] = defaultdict(set)
    for module in tree.modules.values():
        if module.path.suffix == ".pyi":
            continue
        for node in module.nodes(ast.ClassDef):
            classes[node.name].add(module.name)
        for name in _assigned(module):
            types[name].add(module.name)
    places = {name: sorted(modules | types[name]) for name, modules in classes.items()}
    return _unexcused({name: modules for name, modules in places.items() if len(modules) > 1}, excused)


def standard_names(tree: Tree, excused: Mapping[str, str]) -> list[str]:
    """Modules and packages that are called as one of the standard library is, and excuses that nothing needs."""
    found = {name: [name] for name in tree.modules if name.rpartition(".")[2] in sys.stdlib_module_names}
    return _unexcused(found, excused)


def repeated_files(
    tree: Tree, shared: Collection[str], families: Collection[Collection[str]], excused: Mapping[str, str]
) -> list[str]:
    """File names that several folders have, and excuses that nothing needs.

    Every folder may have files of the names in ``shared``. The folders of a family name a file by what it is about, so
    that a name is counted once for all of them.
    """
    places: dict[str, set[str]] = defaultdict(set)
    for module in tree.modules.values():
        folder, _, name = module.name.rpartition(".")
        if not module.is_package and name not in shared:
            places[name].add(folder)
    repeated = {}
    for name, folders in places.items():
        joined = [family for family in families if len(folders & set(family)) > 1]
        if len(folders) - sum(len(folders & set(family)) - 1 for family in joined) > 1:
            repeated[name] = sorted(folders)
    return _unexcused(repeated, excused)


def _assigned(module: Module) -> Iterator[str]:
    """The names of a module's top level that are spelled as a type is."""
    for node in module.tree.body:
        targets = node.targets if isinstance(node, ast.Assign) else []
        yield from (target.id for target in targets if isinstance(target, ast.Name) and not target.id.isupper())


def _unexcused(found: Mapping[str, list[str]], excused: Mapping[str, str]) -> list[str]:
    kept = [f"{name} is taken: {', '.join(found[name])}" for name in sorted(found.keys() - excused.keys())]
    return kept + [f"{name} is excused, and is not taken" for name in sorted(excused.keys() - found.keys())]
