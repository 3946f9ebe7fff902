"""Machines beside each other, one Run each: which one is slow, in which figures, by how much, and what is different."""

from __future__ import annotations

import math
import statistics
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from hwdyno.analysis.estimates import false_discovery_rates
from hwdyno.analysis.resources import find
from hwdyno.explain.comparison.differences import Difference, differences
from hwdyno.explain.repeatability import MAD_OF_NORMAL, qn_scale
from hwdyno.explain.trends.account import Shift, shifts
from hwdyno.explain.trends.time_series import FigureKey, figure_key
from hwdyno.model.words import Parameters, Run
from hwdyno.system.store import HistoryEntry, PointFigure, StoreError

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Floats = NDArray[Any]

MIN_NODES = 5
"""Minimum number of nodes: with fewer, one slow node is a quarter of all, and no figure is typical."""
FALSE_RATE = 0.01
"""The share of false ones among the figures that are named, so that a sound fleet stays silent in 99% of cases."""
MIN_LOSS = 0.05
"""A smaller loss is no reason to look after a node."""
_MIN_DISTANCE = -math.log1p(-MIN_LOSS)
MIN_SCALE = 0.01
"""The least spread of a figure between equal nodes, as a share: clocks, boots and memory layout make it."""
_OF_QN, _OF_MAD = 0.82, 0.37
"""The efficiencies of both estimators for normal data (Rousseeuw & Croux 1993)."""
_MAX_BY_PAIRS = 40
"""Nodes up to which a figure's spread is Qn, whose pairs grow with the square, and beyond it the median deviation."""
_MIN_TAIL, _MAX_TAIL, _FAR_DEVIATIONS = 0.004, 0.10, 50
"""The share of all deviations by which the tails are read: that of fifty, within limits."""
_HEAVIEST, _NORMAL = 2.0, 1e6
_PRIOR_DEGREES, _PRIOR_DEVIATIONS = 5.0, 300
"""The tails of measured figures where nothing is known of them, and how many deviations outweigh that."""
SOUND = 15
"""Sound nodes with which a slow one's facts are compared."""
_MAX_AGREE = 0.8
"""The share of them that a fact must set apart."""
_CLOCK_LOSS = 0.03


@dataclass(frozen=True, slots=True)
class Node:
    """A machine by its newest Run."""

    name: str
    kind: str
    """What only like machines share: the processor's model."""
    entry: HistoryEntry
    figures: Mapping[FigureKey, PointFigure]


@dataclass(frozen=True, slots=True)
class Loss:
    """One figure in which a node is slower than the others."""

    key: FigureKey
    experiment: str
    resource: str
    parameters: Parameters
    unit: str
    value: float
    typical: float
    """The median of the nodes of its kind."""
    deviations: float
    """How far it is from the median, in standard deviations of the nodes (a robust estimate)."""
    p_value: float

    @property
    def share(self) -> float:
        """How much slower it is, as a share of the others' median rate, or of its time where it is a time."""
        ratio = self.typical / self.value if _is_time(self.unit) else self.value / self.typical
        return 1 - ratio


@dataclass(frozen=True, slots=True)
class Slow:
    """An outlying node, its losses by resource (the greatest first), and what is different about it."""

    node: Node
    losses: Mapping[str, tuple[Loss, ...]]
    shared: Mapping[str, int]
    """Number of figures that it shares with the others, by resource."""
    differences: Mapping[str, tuple[Difference, ...]]
    """The facts in which it differs from sound nodes, by resource, those of the resource's own parts first."""
    shifts: tuple[Shift, ...] = ()
    sound_run: str = ""
    """The Run of a sound node, to compare it with; empty where there is none."""

    @property
    def most(self) -> float:
        """Its greatest loss."""
        return max(loss.share for some in self.losses.values() for loss in some)


@dataclass(frozen=True, slots=True)
class Fleet:
    """What the nodes say of each other."""

    nodes: int
    figures: int
    """Values that were compared."""
    slow: tuple[Slow, ...]
    alone: tuple[Node, ...]
    """Nodes that share too few figures with too few others of their kind to be judged."""
    seen_from: float | None
    """The loss of a single figure that would have been named, of half of the figures; none where none was compared."""


def node_name(machine: str) -> str:
    """What tells a machine from others, of "host, processor": its host, or all of its description without one."""
    host, _, kind = machine.partition(", ")
    return host if kind else machine


def list_nodes(rows: Iterable[tuple[HistoryEntry, Sequence[PointFigure]]], metric: str = "") -> list[Node]:
    """The newest Run of each machine, by its host; Runs that name none are one machine for each description.

    ``metric`` is a part of the names of the figures to look at.
    """
    newest: dict[str, tuple[HistoryEntry, Sequence[PointFigure]]] = {}
    for entry, figures in rows:
        name = node_name(entry.machine)
        if name not in newest or (entry.started, entry.id) > (newest[name][0].started, newest[name][0].id):
            newest[name] = entry, figures
    found = []
    for name, (entry, figures) in newest.items():
        kind = entry.machine.partition(", ")[2] or entry.machine
        keyed = {
            figure_key(figure.experiment, figure.kernel, figure.parameters, figure.unit): figure
            for figure in reversed(figures)
        }
        kept = {key: figure for key, figure in keyed.items() if metric.lower() in " ".join(key).lower()}
        found.append(Node(name, kind, entry, kept))
    return found


def judge_fleet(nodes: Sequence[Node], load: Callable[[str], Run]) -> Fleet:
    """Judge every figure that at least ``MIN_NODES`` nodes of a kind share; ``load`` reads a Run by its entry's path.

    Deviations are those of the logarithm from the median, over the figure's spread (Qn, Rousseeuw & Croux 1993, or the
    median absolute deviation); their chances come from Student's t with tails as heavy as the fleet's own. All figures
    of all nodes, and each experiment's figures together, share one false discovery rate (Benjamini & Hochberg 1995).
    """
    losses, judged, figures, scales = _losses(nodes)
    by_node: dict[str, list[Loss]] = {}
    for name, loss in losses:
        by_node.setdefault(name, []).append(loss)
    sound = [node for node in nodes if node.name in judged and node.name not in by_node]
    slow = [_slow(node, by_node[node.name], judged[node.name], sound, load) for node in nodes if node.name in by_node]
    alone = tuple(node for node in nodes if node.name not in judged)
    seen = statistics.median(scales) if scales else None
    return Fleet(len(nodes), figures, tuple(sorted(slow, key=lambda slow_node: -slow_node.most)), alone, seen)


def _losses(nodes: Sequence[Node]) -> tuple[list[tuple[str, Loss]], dict[str, Counter[str]], int, list[float]]:
    """Losses by node; by node how many figures of each resource were compared; how many in all; least losses."""
    columns = _at_least_typical([_deviations(members) for members in _shared_figures(nodes)])
    if not columns:
        return [], {}, 0, []
    experiments = _at_least_typical(_by_experiment(columns))
    families = [_p_values(family) for family in (columns, experiments) if family]
    adjusted = false_discovery_rates([p for p_values, _ in families for p in p_values])
    judged: dict[str, Counter[str]] = {}
    figures: dict[tuple[str, str], list[tuple[NodeFigure, float, float]]] = {}
    named: dict[tuple[str, FigureKey], float] = {}
    place = 0
    for column in columns:
        for member, distance in zip(column.members, column.distances, strict=True):
            judged.setdefault(member.node.name, Counter())[member.figure.resource] += 1
            figures.setdefault((member.node.name, member.figure.experiment), []).append(
                (member, distance, distance / column.spread)
            )
            if adjusted[place] <= FALSE_RATE:
                named[member.node.name, member.key] = families[0][0][place]
            place += 1
    for column in experiments:
        for member, distance in zip(column.members, column.distances, strict=True):
            if adjusted[place] <= FALSE_RATE and distance >= _MIN_DISTANCE:
                for fellow, _, _ in figures[member.node.name, member.figure.experiment]:
                    named.setdefault((fellow.node.name, fellow.key), families[1][0][place - len(families[0][0])])
            place += 1
    found = [
        (member.node.name, _loss(member, distance, deviations, named[member.node.name, member.key]))
        for some in figures.values()
        for member, distance, deviations in some
        if distance >= _MIN_DISTANCE and (member.node.name, member.key) in named
    ]
    # A single figure among all must reach the first step of the procedure.
    needed = _deviations_from_p_value(FALSE_RATE / len(adjusted), families[0][1])
    seen = [1 - math.exp(-max(needed * column.spread, _MIN_DISTANCE)) for column in columns]
    return found, judged, len(families[0][0]), seen


class NodeFigure(NamedTuple):
    """A node's figure."""

    node: Node
    figure: PointFigure
    key: FigureKey


class NodeDeviations(NamedTuple):
    """A figure over the nodes of a kind: how far each is from the median, in logarithms of which more is slower."""

    members: Sequence[NodeFigure]
    distances: Sequence[float]
    spread: float
    """A robust standard deviation of the distances."""
    freedom: float
    """How many values of normal data would tell the spread as well."""


def _shared_figures(nodes: Sequence[Node]) -> Iterator[list[NodeFigure]]:
    """The values of each figure of each kind of machine that enough nodes have."""
    shared: dict[tuple[str, FigureKey], list[NodeFigure]] = {}
    for node in nodes:
        for key, figure in node.figures.items():
            if figure.value > 0:
                shared.setdefault((node.kind, key), []).append(NodeFigure(node, figure, key))
    return (members for members in shared.values() if len(members) >= MIN_NODES)


def _is_time(unit: str) -> bool:
    return unit in {"ns", "s"}


def _deviations(members: Sequence[NodeFigure]) -> NodeDeviations:
    sign = 1.0 if _is_time(members[0].figure.unit) else -1.0
    values = [sign * math.log(member.figure.value) for member in members]
    centre = statistics.median(values)
    return _column(members, [value - centre for value in values])


def _column(members: Sequence[NodeFigure], distances: Sequence[float]) -> NodeDeviations:
    few = len(distances) <= _MAX_BY_PAIRS
    spread = qn_scale(distances) if few else MAD_OF_NORMAL * statistics.median(map(abs, distances))
    efficiency = _OF_QN if few else _OF_MAD
    return NodeDeviations(members, distances, max(spread, MIN_SCALE), efficiency * (len(distances) - 1))


def _at_least_typical(columns: Iterable[NodeDeviations]) -> list[NodeDeviations]:
    """The same with no spread below the typical one of its kind and resource: a few nodes' may be small by chance."""
    like: dict[tuple[str, str], list[NodeDeviations]] = {}
    for column in columns:
        first = column.members[0]
        like.setdefault((first.node.kind, first.figure.resource), []).append(column)
    found = []
    for some in like.values():
        typical = statistics.median(column.spread for column in some)
        freedom = sum(column.freedom for column in some)
        found += [column._replace(spread=max(column.spread, typical), freedom=freedom) for column in some]
    return found


def _by_experiment(columns: Iterable[NodeDeviations]) -> Iterator[NodeDeviations]:
    """What half of an experiment's figures lose at each node, the lower one of two: a fault moves them together."""
    found: dict[tuple[str, str], dict[str, list[tuple[NodeFigure, float]]]] = {}
    for column in columns:
        for member, distance in zip(column.members, column.distances, strict=True):
            by_node = found.setdefault((member.node.kind, member.figure.experiment), {})
            by_node.setdefault(member.node.name, []).append((member, distance))
    for by_node in found.values():
        several = [some for some in by_node.values() if len(some) > 1]
        if len(several) >= MIN_NODES:
            medians = [statistics.median_low([distance for _, distance in some]) for some in several]
            centre = statistics.median(medians)
            yield _column([some[0][0] for some in several], [median - centre for median in medians])


def _p_values(columns: Sequence[NodeDeviations]) -> tuple[list[float], float]:
    """The p-value of each deviation, and the degrees of freedom of the Student's t that it comes from."""
    import numpy as np
    from scipy.special import stdtr

    deviations = np.array([distance / column.spread for column in columns for distance in column.distances])
    tails = _degrees(np.abs(deviations))
    known = np.array([column.freedom for column in columns for _ in column.distances])
    p_values: list[float] = stdtr(np.minimum(known, tails), -deviations).tolist()
    return p_values, min(tails, float(np.median(known)))


def _deviations_from_p_value(p_value: float, degrees: float) -> float:
    from scipy.special import stdtrit

    return -float(stdtrit(degrees, p_value))


def _loss(member: NodeFigure, distance: float, deviations: float, p_value: float) -> Loss:
    figure = member.figure
    typical = figure.value * math.exp(-distance if _is_time(figure.unit) else distance)
    return Loss(
        *(member.key, figure.experiment, figure.resource, figure.parameters, figure.unit),
        *(figure.value, typical, deviations, p_value),
    )


def _degrees(distances: Floats) -> float:
    """The degrees of freedom of the Student's t that has tails as heavy as these deviations.

    By the ratio of two quantiles of the distances, which a few slow nodes cannot move; small groups, whose spread is
    itself uncertain, have heavy tails, so that this holds for them as well.
    """
    import numpy as np
    from scipy.optimize import brentq

    beyond = min(max(_FAR_DEVIATIONS / len(distances), _MIN_TAIL), _MAX_TAIL)
    tail, middle = (float(quantile) for quantile in np.quantile(distances, [1 - beyond, 0.5]))

    def excess(degrees: float) -> float:
        return _deviations_from_p_value(beyond / 2, degrees) / _deviations_from_p_value(0.25, degrees) - tail / middle

    if tail <= 1:  # They differ by less than the least spread.
        return _NORMAL
    if middle <= 0 or excess(_HEAVIEST) <= 0:
        return _HEAVIEST
    found = _NORMAL if excess(_NORMAL) >= 0 else float(brentq(excess, _HEAVIEST, _NORMAL))
    # A few deviations say little of tails; the typical one counts as much as this many.
    return (len(distances) + _PRIOR_DEVIATIONS) / (len(distances) / found + _PRIOR_DEVIATIONS / _PRIOR_DEGREES)


def _slow(
    node: Node, losses: Sequence[Loss], shared: Mapping[str, int], sound: Sequence[Node], load: Callable[[str], Run]
) -> Slow:
    by_resource: dict[str, list[Loss]] = {}
    for loss in sorted(losses, key=lambda loss: -loss.share):
        by_resource.setdefault(loss.resource, []).append(loss)
    found: list[Difference] = []
    shifted: tuple[Shift, ...] = ()
    like = [sound_node for sound_node in sound if sound_node.kind == node.kind][:SOUND]
    with suppress(StoreError):  # Without its document, the figures still tell.
        run = load(node.entry.path)
        others = list(_runs(like, load))
        if others:
            found = _set_apart(run, others)
            shifted = tuple(shifts(others, [run]))
    return Slow(
        node,
        {name: tuple(some) for name, some in by_resource.items()},
        {name: shared[name] for name in by_resource},
        {name: tuple(_related_first(found, find(name).survey_parts)) for name in by_resource},
        shifted,
        like[0].entry.id if like else "",
    )


def _runs(nodes: Iterable[Node], load: Callable[[str], Run]) -> Iterator[Run]:
    for node in nodes:
        with suppress(StoreError):
            yield load(node.entry.path)


def _set_apart(run: Run, others: Sequence[Run]) -> list[Difference]:
    """The facts in which a Run's machine differs from nearly all others, as it differs from most of them."""
    seen: dict[str, list[Difference]] = {}
    for other in others:
        for difference in differences(other, run):
            seen.setdefault(difference.path, []).append(difference)
    found = []
    for some in seen.values():
        if len(some) >= _MAX_AGREE * len(others):
            common, _ = Counter(repr(difference.before) for difference in some).most_common(1)[0]
            found.append(next(difference for difference in some if repr(difference.before) == common))
    clocks = [float(clock) for other in others if (clock := other.machine.cpu.clock_hz.measured)]
    mine = run.machine.cpu.clock_hz.measured
    if clocks and mine and float(mine) < (1 - _CLOCK_LOSS) * min(clocks):
        found.insert(0, Difference("cpu.clock_hz.measured", statistics.median(clocks), mine))
    return found


def _related_first(found: Iterable[Difference], parts: Sequence[str]) -> list[Difference]:
    return sorted(found, key=lambda difference: difference.path.partition(".")[0] not in parts)
