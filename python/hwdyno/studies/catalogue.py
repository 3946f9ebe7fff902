"""Every study of this folder, found by walking it."""

from __future__ import annotations

import importlib
import pkgutil
from functools import cache

from hwdyno.model.words import UserError
from hwdyno.studies.study import Study
from hwdyno.system.suggestions import hint


def all() -> tuple[Study, ...]:
    """Every published characterization in this folder, by name."""
    return tuple(study for study in _every() if not study.method)


@cache
def _every() -> tuple[Study, ...]:
    folder = importlib.import_module(__package__)
    modules = (
        importlib.import_module(f"{__package__}.{found.name}") for found in pkgutil.iter_modules(folder.__path__)
    )
    studies = (value for module in modules for value in vars(module).values() if isinstance(value, Study))
    return tuple(sorted(studies, key=lambda study: study.name))


def is_known(name: str) -> bool:
    """Whether a study is called so."""
    return any(study.name == name for study in _every())


def find(name: str) -> Study:
    """Look up a study by name. Raises ``UserError``."""
    for study in _every():
        if study.name == name:
            return study
    raise UserError(f"no study is called '{name}'; {hint(name, (study.name for study in all()))}")
