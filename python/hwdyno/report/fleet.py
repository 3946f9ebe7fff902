"""A fleet in words and as JSON: which node is slow, in what, by how much, and what is different about it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from hwdyno.analysis.resources import find
from hwdyno.explain.fleet.slow import FALSE_RATE, MIN_NODES, Fleet, Loss, Slow
from hwdyno.explain.trends.time_series import FigureKey
from hwdyno.model.units import format_percent, plural
from hwdyno.report.compared import difference_words
from hwdyno.report.trends import NOTHING_KNOWN, amount, name_figure, shift_words
from hwdyno.system.printable import printable

MAX_LOSSES = 3
"""Figures of a resource that are listed; all of them are in the JSON."""
MAX_FACTS = 4
MAX_ALONE = 6

PointNames = Mapping[str, Mapping[FigureKey, str]]
"""Names of the points of each slow node."""


def heading(fleet: Fleet) -> str:
    """How many nodes were judged, and whether one is slow."""
    judged = fleet.nodes - len(fleet.alone)
    if not fleet.figures:
        return (
            f"{plural(fleet.nodes, 'node')}; none was judged: at least {MIN_NODES} with the same processor must have "
            "measured the same points."
        )
    seen = f" ({plural(fleet.figures, 'figure')} compared)"
    few = f"fewer than {MIN_NODES} nodes with {'its' if len(fleet.alone) == 1 else 'their'} processor measured the same"
    left = (
        f" {len(fleet.alone)} more {'is' if len(fleet.alone) == 1 else 'are'} not judged: {few}." if fleet.alone else ""
    )
    if fleet.slow:
        verb = "is" if len(fleet.slow) == 1 else "are"
        return f"{len(fleet.slow)} of {plural(judged, 'node')} {verb} slow{seen}.{left}"
    least = "" if fleet.seen_from is None else f"; a loss of {format_percent(fleet.seen_from)} in one would be named"
    return f"No node of {judged} is slow{seen}{least}.{left}"


def format_fleet(fleet: Fleet, labels: PointNames) -> str:
    """The whole fleet for a terminal: each slow node with its losses, what is different, and how to look closer."""
    lines = [heading(fleet)]
    for slow_node in fleet.slow:
        lines += ["", headline(slow_node)]
        for resource, losses in slow_node.losses.items():
            lines += [f"  {loss_words(loss, labels.get(slow_node.node.name, {}))}" for loss in losses[:MAX_LOSSES]]
            if len(losses) > MAX_LOSSES:
                lines.append(f"  and {plural(len(losses) - MAX_LOSSES, 'figure')} more of {find(resource).title}")
        lines.append(f"  different   {different_words(slow_node)}")
        if slow_node.sound_run:
            lines.append(f"  hwdyno compare {slow_node.sound_run} {slow_node.node.entry.id}")
    if fleet.alone and fleet.figures:
        names = ", ".join(node.name for node in fleet.alone[:MAX_ALONE])
        more = ", …" if len(fleet.alone) > MAX_ALONE else ""
        lines += ["", f"Not judged: {names}{more}"]
    return "\n".join(map(printable, lines)) + "\n"


def headline(slow: Slow) -> str:
    """The node and its greatest loss in each resource."""
    return f"{slow.node.name}: {slow_words(slow)}"


def slow_words(slow: Slow) -> str:
    """The greatest loss in each resource, and in how many of its figures there is one."""
    return "; ".join(
        f"{find(resource).title} {format_percent(losses[0].share)} slower, "
        f"{len(losses)} of {plural(slow.shared[resource], 'figure')}"
        for resource, losses in slow.losses.items()
    )


def loss_words(loss: Loss, labels: Mapping[FigureKey, str]) -> str:
    """A figure beside the typical one."""
    typical = amount(loss.typical, loss.unit)
    return (
        f"{name_figure(loss, labels)}: {amount(loss.value, loss.unit)}, usually {typical} "
        f"({format_percent(loss.share)} slower, {loss.deviations:.0f} standard deviations)"
    )


def different_words(slow: Slow) -> str:
    """The facts that set a node apart, those of what is slow first."""
    facts = dict.fromkeys(
        difference_words(fact) for resource in slow.losses for fact in slow.differences[resource][:MAX_FACTS]
    )
    return "; ".join([*facts, *map(shift_words, slow.shifts)]) or NOTHING_KNOWN


def plain_fleet(fleet: Fleet, labels: PointNames) -> dict[str, Any]:
    """The fleet as JSON; values in the units that are named, times in ns."""
    return {
        "nodes": fleet.nodes,
        "figures": fleet.figures,
        "false_discovery_rate": FALSE_RATE,
        "least_loss_seen": fleet.seen_from,
        "not_judged": [node.name for node in fleet.alone],
        "slow": [_plain(slow_node, labels.get(slow_node.node.name, {})) for slow_node in fleet.slow],
    }


def _plain(slow: Slow, labels: Mapping[FigureKey, str]) -> dict[str, Any]:
    return {
        "node": slow.node.name,
        "run": slow.node.entry.id,
        "resources": {
            resource: {
                "shared_figures": slow.shared[resource],
                "losses": [
                    {
                        "figure": name_figure(loss, labels),
                        "parameters": dict(loss.parameters),
                        "value": loss.value,
                        "usual": loss.typical,
                        "unit": loss.unit,
                        "loss": loss.share,
                        "standard_deviations": loss.deviations,
                        "p_value": loss.p_value,
                    }
                    for loss in losses
                ],
                "different": [
                    {"fact": fact.path, "usual": fact.before, "here": fact.after} for fact in slow.differences[resource]
                ],
            }
            for resource, losses in slow.losses.items()
        },
        "conditions": {shift.condition: [shift.before, shift.after] for shift in slow.shifts},
    }
