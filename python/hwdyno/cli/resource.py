"""The commands of single resources: a kernel's parameters as options, and the plan that they make."""

from __future__ import annotations

import argparse
from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from hwdyno.cli import common
from hwdyno.experiments import Experiment
from hwdyno.units import format_size
from hwdyno.words import UserError

if TYPE_CHECKING:
    from hwdyno.hosts import Host
    from hwdyno.plan import Plan
    from hwdyno.sweep import Sweep

_PREFIX = "axis_"


Kernels = str | tuple[str, ...]


def add_axes(
    parser: argparse.ArgumentParser, kernel: Kernels, leave_out: Collection[str] = (), resource: str = ""
) -> None:
    """One option for each of the kernels' parameters; it takes one value or many, such as ``4k,16k`` or ``1..64``.

    ``resource`` is whose sweep the axes are laid over; what that takes by itself is shown as the default. Of
    several kernels with a parameter of the same name the first one's words are shown.
    """
    names = _each(kernel)
    defaults = _defaults(resource, names[0]) if resource else {}
    known = common.this_machine().kernels()
    parameters: dict[str, dict[str, Any]] = {}
    for name in names:
        for parameter in known.get(name, {"parameters": []})["parameters"]:
            parameters[parameter["name"]] = _joined(parameters.get(parameter["name"]), parameter)
    group = parser.add_argument_group("axes", "each takes one value or many: 4k,16k,1M   1..1024   randread,randrw:70")
    _declare(group, parameters, leave_out, defaults)
    group.add_argument("--load", metavar="AXIS", help="the axis of the curves (default: that with most values)")


def add_more_axes(
    parser: argparse.ArgumentParser, title: str, kernel: str, beside: Kernels, leave_out: Collection[str]
) -> None:
    """The axes of one more kernel, in a group of their own: those that the kernels ``beside`` it have not declared."""
    known = common.this_machine().kernels()
    there = {one["name"] for name in _each(beside) for one in known.get(name, {"parameters": []})["parameters"]}
    parameters = {one["name"]: one for one in known.get(kernel, {"parameters": []})["parameters"]}
    _declare(parser.add_argument_group(title), parameters, {*leave_out, *there}, {})


def _declare(
    group: argparse._ArgumentGroup,
    parameters: Mapping[str, dict[str, Any]],
    leave_out: Collection[str],
    defaults: Mapping[str, str],
) -> None:
    for name, parameter in parameters.items():
        if name in leave_out:
            continue
        spellings = dict.fromkeys([f"--{name.replace('_', '-')}", f"--{name}"])
        says = _help(parameter, defaults.get(name, parameter.get("default")))
        group.add_argument(*spellings, dest=_PREFIX + name, metavar="VALUES", help=says)


def _each(kernel: Kernels) -> tuple[str, ...]:
    return (kernel,) if isinstance(kernel, str) else kernel


def _joined(first: dict[str, Any] | None, second: dict[str, Any]) -> dict[str, Any]:
    """A parameter of two kernels: the first one's words, and the choices of both."""
    if first is None or not first.get("choices"):
        return first or second
    return {**first, "choices": list(dict.fromkeys([*first["choices"], *second.get("choices", ())]))}


def _help(parameter: dict[str, Any], default: Any) -> str:
    """What a parameter means and takes, safe for argparse's own formatting."""
    takes = ", ".join(map(str, parameter["choices"])) if parameter.get("choices") else ""
    low, high = parameter.get("min"), parameter.get("max")
    if not takes and low is not None and high is not None:
        least, most = (_bound(bound, parameter.get("unit", "")) for bound in (low, high))
        # The bounds of the machine's own integers tell nobody anything.
        takes = f"{least} or more" if high >= 1 << 62 else f"{least} to {most}"
    told = [parameter["means"], f"({takes})" if takes else ""]
    told.append(f"[{default}]" if default not in (None, "", []) else "")
    return " ".join(word for word in told if word).replace("%", "%%")


def _bound(bound: float, unit: str) -> str:
    if unit == "B" and bound:
        return format_size(bound)
    return f"{bound:g} {unit}".strip() if unit != "B" else "0"


def _defaults(resource: str, kernel: str) -> dict[str, str]:
    """What a sweep takes where an axis is not given, by the axis."""
    like = _like(resource, kernel)
    if like is None:
        return {}
    shown: dict[str, Any] = dict.fromkeys(("runtime", "ramp_time", "size"), "by profile")
    shown |= like.fixed | {name: values[0] for name, values in _base_of(like).axes.items()}
    return {name: _shown(value) for name, value in shown.items()}


def _shown(value: Any) -> str:
    from hwdyno.topology import FromSite

    return value.name if isinstance(value, FromSite) else str(int(value)) if isinstance(value, bool) else str(value)


def _like(resource: str, kernel: str) -> Experiment | None:
    from hwdyno import experiments

    same = [one for one in experiments.find(resource) if one.kernel == kernel]
    return next((one for one in same if one.base is not None), same[0] if same else None)


def given_axes(args: argparse.Namespace) -> dict[str, str]:
    """The axes that were given, as they were typed."""
    return {
        name.removeprefix(_PREFIX): value
        for name, value in vars(args).items()
        if name.startswith(_PREFIX) and value is not None
    }


def plan_of(resource: str, kernel: Kernels, args: argparse.Namespace, host: Host) -> Plan:
    """The plan of a resource's command: the questions named, the sweep given, or every question of the resource."""
    from hwdyno import experiments
    from hwdyno import plan as plans
    from hwdyno.units import parse_duration

    given = given_axes(args)
    chosen: list[tuple[Experiment, Any]]
    if args.question:
        chosen = [(one, given) for word in args.question for one in experiments.find(f"{resource}.{word}")]
    elif given or args.load:
        chosen = [(own_sweep(resource, kernel_with(kernel, given, host)), given)]
    else:
        chosen = plans.select([resource], host)
    profile = args.profile or "quick"
    whole = not given and not args.question and profile in plans.PROFILES
    return plans.build(
        chosen,
        host,
        profile=profile,
        path=args.path,
        load=args.load,
        peers=bool(args.peers),
        ceilings=args.ceiling,
        seed=args.seed,
        budget_s=parse_duration(args.budget)
        if args.budget
        else plans.budget_of(profile, bool(args.peers))
        if whole
        else None,
        command=common.command_line(f"hwdyno {resource}"),
    )


def kernel_with(kernel: Kernels, given: Mapping[str, str], host: Host) -> str:
    """The first of the kernels that takes every axis given, with its words; the first of all where none does."""
    names, known = _each(kernel), host.kernels()

    def takes(name: str) -> bool:
        declared = {one["name"]: one for one in known.get(name, {"parameters": []})["parameters"]}
        return all(
            axis in declared
            and (not declared[axis].get("choices") or set(values.split(",")) <= set(declared[axis]["choices"]))
            for axis, values in given.items()
        )

    return next((name for name in names if takes(name)), names[0])


def own_sweep(resource: str, kernel: str) -> Experiment:
    """The experiment that a resource's axes are laid over: its first one, at a single point."""
    like = _like(resource, kernel)
    if like is None:
        raise UserError(f"{resource} has no sweep of its own; name a question")
    return replace(
        like, name=f"{resource}.sweep", asks="What does the given sweep reach?", sweep=_base_of(like), quick=None
    )


def _base_of(like: Experiment) -> Sweep:
    """The single point that a command's axes are laid over: the experiment's own, or the first of its sweep."""
    from hwdyno.sweep import Sweep

    return like.base or Sweep(**{name: values[0] for name, values in like.sweep.axes.items()})
