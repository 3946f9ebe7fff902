"""The options of each command with the types of ``hwdyno.api.options``, as kernels and scenarios declare them."""

from __future__ import annotations

from hwdyno.api import measuring
from hwdyno.measure.hosts.local import Local
from hwdyno.measure.scenarios import of_command
from hwdyno.measure.scenarios.entry import Swept, is_swept, merge_axes, swept_by

OF_AXES = {"integer": "Integers", "integers": "Integers", "number": "Numbers", "flag": "Flags"}
OF_OPTIONS = {bool: "bool", int: "int | str", float: "float | str"}


def options_by_type(command: str) -> dict[str, str]:
    """The type of each option that a command has besides those of every command."""
    kinds, kernels = of_command(command), Local().kernels()
    swept = [swept_by(command)] if is_swept(command) else []
    swept += [Swept((kind.kernel,), frozenset(kind.hidden)) for kind in kinds if kind.kernel]
    found = {
        name: OF_AXES.get(axis.kind, "Texts")
        for kernel_axes in swept
        for name, axis in merge_axes(kernel_axes, kernels).items()
    }
    for option in (option for kind in kinds for option in kind.options if option.flag.startswith("-")):
        found[option.flag.removeprefix("--").replace("-", "_")] = OF_OPTIONS.get(option.kind, "Texts")
    found |= dict.fromkeys(measuring.option_names(command, Local()) - found.keys(), "str")
    return {name: kind for name, kind in found.items() if name not in measuring.SHARED}


def write_class(command: str) -> str:
    """The class that ``hwdyno.api.options`` has for a command."""
    summary = f'Options of ``measure("{command}")``, which are those of ``hwdyno {command}``.'
    lines = [f"    {name}: {kind}" for name, kind in options_by_type(command).items()]
    head = f"class {command.capitalize()}Options(CommonOptions, total=False):"
    return "\n".join([head, f'    """{summary}"""', "", *lines, ""])
