"""The options of axes: one for each parameter of the kernels that a command sweeps."""

from __future__ import annotations

import argparse
from collections.abc import Collection, Iterable, Mapping
from typing import TYPE_CHECKING, Any

from hwdyno import session
from hwdyno.cli.options import AXIS_PREFIX
from hwdyno.cli.parser import Parser
from hwdyno.measure.scenarios.entry import Swept, merge_axes, swept_by
from hwdyno.model.axes import BETWEEN, CLIENTS, LARGEST_INTEGER, SHARED_FILE
from hwdyno.model.units import format_size
from hwdyno.model.words import Axis, Declaration

if TYPE_CHECKING:
    from hwdyno.measure.scenarios import Kind

REACHED_BY = frozenset({"endpoint", "ca_file", "timeout"})
"""Parameters of a kernel by which it reaches an object store."""


def add_resource_axes(
    parser: argparse.ArgumentParser, resource: str, groups: Mapping[str, tuple[str, ...]] | None = None
) -> None:
    """The experiments of a resource's command, and an option for each axis that it can sweep.

    The values of the resource's own sweep are shown as defaults. ``groups`` has the axes that the help shows under a
    separate title.
    """
    parser.add_argument(
        "question",
        nargs="*",
        metavar="EXPERIMENT",
        help="experiments (default: the axes that are given, or the default experiments)",
    )
    swept = swept_by(resource)
    _add_axes(parser, swept, _defaults(resource, swept.kernels[0]), groups or {})


def _add_axes(
    parser: argparse.ArgumentParser,
    swept: Swept,
    defaults: Mapping[str, str],
    groups: Mapping[str, tuple[str, ...]],
) -> None:
    """One option for each of the kernels' parameters; it takes one value or many, such as ``4k,16k`` or ``1..64``."""
    axes = merge_axes(swept, session.this_site().kernels())
    group = parser.add_argument_group("axes", "one value or many: 4k,16k,1M   1..1024   randread,randrw:70")
    titled = {name: title for title, names in groups.items() for name in names}
    _declare(parser, group, [axis for axis in axes.values() if axis.name not in titled], (), defaults)
    group.add_argument("--load", metavar="AXIS", help="axis of the curves (default: the one with most values)")
    for title, members in groups.items():
        mine = [axis for axis in axes.values() if axis.name in members]
        _declare(parser, parser.add_argument_group(title), mine, (), defaults)


def add_scenario(parser: argparse.ArgumentParser, kind: Kind) -> None:
    """The options that a scenario declares."""
    titles = dict.fromkeys(option.group or kind.title for option in kind.options)
    groups = {title: parser.add_argument_group(title) if title else parser for title in titles}
    for option in kind.options:
        where = groups[option.group or kind.title]
        if not option.flag.startswith("-"):
            parser.add_argument(option.name, nargs="*", metavar=option.metavar, help=option.help)
        elif option.kind is bool:
            where.add_argument(option.flag, dest=option.name, action="store_true", help=option.help)
        else:
            how: dict[str, Any] = {"action": "append", "default": []} if option.is_list else {"default": option.default}
            how["type"] = option.kind
            where.add_argument(option.flag, dest=option.name, metavar=option.metavar, help=option.help, **how)


def add_scenario_axes(parser: argparse.ArgumentParser, kinds: Iterable[Kind]) -> None:
    """The axes of the kernels of a command's scenarios, each kernel's in a separate group after the first one's."""
    first, *others = (kind for kind in kinds if kind.kernel)
    _add_axes(parser, Swept((first.kernel,), frozenset(first.hidden)), {}, {})
    known = session.this_site().kernels()
    declared = {CLIENTS.name, SHARED_FILE.name, BETWEEN.name, *known.get(first.kernel, Declaration()).names}
    for kind in others:
        group = parser.add_argument_group(f"axes of --{kind.chosen_by.replace('_', '-')}")
        axes = known.get(kind.kernel, Declaration()).axes
        _declare(parser, group, axes, {*kind.hidden, *declared}, {})
        # An option of another name sets how a store is reached: a server's endpoint is no store's.
        declared |= {axis.name for axis in axes} - (REACHED_BY if kind.takes_stores else set())


def _declare(
    parser: argparse.ArgumentParser,
    group: argparse._ArgumentGroup,
    axes: Iterable[Axis],
    leave_out: Collection[str],
    defaults: Mapping[str, str],
) -> None:
    for axis in axes:
        if axis.name in leave_out:
            continue
        spellings = dict.fromkeys([f"--{axis.name.replace('_', '-')}", f"--{axis.name}"])
        says = _help(axis, defaults.get(axis.name, axis.default))
        group.add_argument(*spellings, dest=AXIS_PREFIX + axis.name, metavar="VALUES", help=says)
        if axis.choices and isinstance(parser, Parser):
            parser.words[AXIS_PREFIX + axis.name] = tuple(axis.choices)


def _help(axis: Axis, default: Any) -> str:
    """What an axis means and takes, safe for argparse's own formatting."""
    takes = ", ".join(axis.choices)
    if not takes and axis.least is not None and axis.most is not None:
        least, most = (_bound(bound, axis.unit) for bound in (axis.least, axis.most))
        takes = f"{least} or more" if axis.most >= LARGEST_INTEGER else f"{least} to {most}"
    words = [axis.means, f"({takes})" if takes else ""]
    words.append(f"[{_default(axis, default)}]" if default not in (None, "") else "")
    return " ".join(word for word in words if word).replace("%", "%%")


def _default(axis: Axis, default: Any) -> str:
    if isinstance(default, bool):
        return str(int(default))
    if axis.unit == "B" and isinstance(default, int) and default:
        return format_size(default)
    return f"{default:g}" if isinstance(default, float) else str(default)


def _bound(bound: float, unit: str) -> str:
    if unit == "B" and bound:
        return format_size(bound)
    number = f"{bound:.0f}" if bound == int(bound) else f"{bound:g}"
    return f"{number} {unit}".strip() if unit != "B" else "0"


def _defaults(resource: str, kernel: str) -> dict[str, str]:
    """The value of each axis that the command line leaves out."""
    from hwdyno.measure.experiments import find_base

    like = find_base(resource, kernel)
    if like is None:
        return {}
    shown: dict[str, Any] = dict.fromkeys(("runtime", "ramp_time", "size"), "by profile")
    shown |= like.fixed | {name: values[0] for name, values in like.single_point.axes.items()}
    return {name: _format_value(value) for name, value in shown.items()}


def _format_value(value: Any) -> str:
    from hwdyno.measure.topology import FromSite

    return value.name if isinstance(value, FromSite) else str(int(value)) if isinstance(value, bool) else str(value)
