"""The commands of single resources: a kernel's parameters as options, and the plan that they make."""

from __future__ import annotations

import argparse
from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from hwdyno.cli import common
from hwdyno.cli.main import Parser
from hwdyno.measure.experiments import Experiment
from hwdyno.model.axes import BETWEEN, CLIENTS, LARGEST_INTEGER, SHARED_FILE, axes_of_a_site
from hwdyno.model.units import format_size
from hwdyno.model.words import Axis, Declaration, UserError

if TYPE_CHECKING:
    from hwdyno.measure.hosts import Host
    from hwdyno.measure.plan import Plan
    from hwdyno.measure.scenarios import Kind


Kernels = str | tuple[str, ...]
MAX_HOSTS = 100_000


def add_axes(
    parser: argparse.ArgumentParser,
    kernel: Kernels,
    leave_out: Collection[str] = (),
    resource: str = "",
    groups: Mapping[str, tuple[str, ...]] | None = None,
) -> None:
    """One option for each of the kernels' parameters; it takes one value or many, such as ``4k,16k`` or ``1..64``.

    ``resource`` is the resource whose sweep the axes override; the values of that sweep are shown as defaults. Of
    several kernels with a parameter of the same name the first one's words are shown. ``groups`` has the axes that the
    help shows under a separate title.
    """
    names = _each(kernel)
    defaults = _defaults(resource, names[0]) if resource else {}
    known = common.this_machine().kernels()
    axes: dict[str, Axis] = {}
    for name in names:
        for axis in known[name].axes if name in known else ():
            axes[axis.name] = _joined(axes.get(axis.name), axis)
    group = parser.add_argument_group("axes", "one value or many: 4k,16k,1M   1..1024   randread,randrw:70")
    titled = {name: title for title, names in (groups or {}).items() for name in names}
    _declare(parser, group, [axis for axis in axes.values() if axis.name not in titled], leave_out, defaults)
    if CLIENTS.name not in axes:
        _declare(parser, group, axes_of_a_site(axes, MAX_HOSTS, between=True), leave_out, {})
    group.add_argument("--load", metavar="AXIS", help="axis of the curves (default: the one with most values)")
    for title, members in (groups or {}).items():
        mine = [axis for axis in axes.values() if axis.name in members]
        _declare(parser, parser.add_argument_group(title), mine, leave_out, defaults)


def add_scenario_axes(parser: argparse.ArgumentParser, kinds: Iterable[Kind]) -> None:
    """The axes of the kernels of a command's scenarios, each kernel's in a separate group after the first one's."""
    first, *others = (kind for kind in kinds if kind.kernel)
    add_axes(parser, first.kernel, leave_out=first.hidden)
    declared = [first.kernel]
    for kind in others:
        title = f"axes of --{kind.chosen_by.replace('_', '-')}"
        _add_more_axes(parser, title, kind.kernel, tuple(declared), kind.hidden)
        declared.append(kind.kernel)


def _add_more_axes(
    parser: argparse.ArgumentParser, title: str, kernel: str, declared_by: Kernels, leave_out: Collection[str]
) -> None:
    """The axes of one more kernel, in a separate group, without those that the kernels ``declared_by`` already have."""
    known = common.this_machine().kernels()
    there = {axis for name in _each(declared_by) if name in known for axis in known[name].names}
    axes = known[kernel].axes if kernel in known else ()
    there |= {CLIENTS.name, SHARED_FILE.name, BETWEEN.name}
    _declare(parser, parser.add_argument_group(title), axes, {*leave_out, *there}, {})


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
        group.add_argument(*spellings, dest=common.AXIS_PREFIX + axis.name, metavar="VALUES", help=says)
        if axis.choices and isinstance(parser, Parser):
            parser.words[common.AXIS_PREFIX + axis.name] = tuple(axis.choices)


def _each(kernel: Kernels) -> tuple[str, ...]:
    return (kernel,) if isinstance(kernel, str) else kernel


def _joined(first: Axis | None, second: Axis) -> Axis:
    """An axis of two kernels: the first one's words, and the choices of both."""
    if first is None or not first.choices:
        return first or second
    return replace(first, choices=tuple(dict.fromkeys([*first.choices, *second.choices])))


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
    from hwdyno.measure.experiments import base_of

    like = base_of(resource, kernel)
    if like is None:
        return {}
    shown: dict[str, Any] = dict.fromkeys(("runtime", "ramp_time", "size"), "by profile")
    shown |= like.fixed | {name: values[0] for name, values in like.single_point.axes.items()}
    return {name: _shown(value) for name, value in shown.items()}


def _shown(value: Any) -> str:
    from hwdyno.measure.topology import FromSite

    return value.name if isinstance(value, FromSite) else str(int(value)) if isinstance(value, bool) else str(value)


def plan_of(
    resource: str, kernel: Kernels, args: argparse.Namespace, host: Host, shared: Mapping[str, str] | None = None
) -> Plan:
    """The plan of a resource's command: the named experiments, the given sweep, or the usual experiments of the
    resource. ``shared`` are parameters that every point has, and that are no sweep."""
    from hwdyno.measure import experiments
    from hwdyno.measure import plan as plans
    from hwdyno.model.units import parse_duration

    given = common.given_axes(args)
    chosen: list[tuple[Experiment, Any]]
    if args.question:
        chosen = [(one, given) for word in args.question for one in experiments.find(f"{resource}.{word}")]
    elif given or args.load:
        chosen = [(base_sweep(resource, kernel_with(kernel, given, host)), given)]
    else:
        chosen = plans.select([resource], host)
    chosen = [(_sharing(one, shared or {}), axes) for one, axes in chosen]
    profile = args.profile or "quick"
    whole = not given and not args.question and profile in plans.PROFILES
    return plans.build(
        chosen,
        host,
        profile=profile,
        path=args.path,
        load=args.load,
        peers=bool(args.peers),
        limits=common.limits_of(args),
        seed=args.seed,
        budget_s=parse_duration(args.budget)
        if args.budget
        else plans.budget_of(profile, bool(args.peers))
        if whole
        else None,
        command=common.command_line(f"hwdyno {resource}", getattr(args, "typed", None)),
    )


def _sharing(experiment: Experiment, shared: Mapping[str, str]) -> Experiment:
    """The experiment with these parameters in every point, whichever it has for them."""
    swept = {name: (value,) for name, value in shared.items() if name in experiment.sweep.axes}
    sweep = experiment.sweep.replace(swept) if swept else experiment.sweep
    return replace(experiment, sweep=sweep, fixed={**experiment.fixed, **shared}) if shared else experiment


def kernel_with(kernel: Kernels, given: Mapping[str, str], host: Host) -> str:
    """The first of the kernels that takes every axis given, with its words; the first of all where none does."""
    names, known = _each(kernel), host.kernels()

    def takes(name: str) -> bool:
        kernel = known.get(name, Declaration())
        return set(given) <= set(kernel.names) and all(
            not kernel.axis(axis).choices or set(values.split(",")) <= set(kernel.axis(axis).choices)
            for axis, values in given.items()
        )

    return next((name for name in names if takes(name)), names[0])


def base_sweep(resource: str, kernel: str) -> Experiment:
    """The experiment that a resource's axes override: its first one, at a single point."""
    from hwdyno.measure.experiments import base_of

    like = base_of(resource, kernel)
    if like is None:
        raise UserError(f"{resource} cannot be swept by axes alone; name an experiment")
    return replace(like, name=f"{resource}.sweep", asks="Custom sweep", sweep=like.single_point, quick=None)
