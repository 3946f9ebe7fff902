"""Every resource that hwdyno measures, found by walking this folder."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Mapping
from functools import cache

from hwdyno.analysis.resources.description import Resource


@cache
def all_resources() -> Mapping[str, Resource]:
    """Every resource by its name."""
    folder = importlib.import_module(__package__)
    modules = (
        importlib.import_module(f"{__package__}.{module.name}") for module in pkgutil.iter_modules(folder.__path__)
    )
    found = (vars(module).get("RESOURCE") for module in modules)
    return {resource.name: resource for resource in found if isinstance(resource, Resource)}


def find(name: str) -> Resource:
    """The resource called ``name``; a plain one for an unknown name, which a foreign document may have."""
    return all_resources().get(name) or Resource(name=name, title=name[:1].upper() + name[1:])
