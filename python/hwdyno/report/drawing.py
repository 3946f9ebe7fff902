"""What every chart is drawn with: axes, one legend, tooltips, and rows kept out of Altair."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import altair as alt

from hwdyno.report import plotdata
from hwdyno.report.plotdata import Rows
from hwdyno.words import ExperimentResult

_BYTES_LABEL = (
    "datum.value >= 1073741824 ? format(datum.value / 1073741824, '~r') + ' GiB' : "
    "datum.value >= 1048576 ? format(datum.value / 1048576, '~r') + ' MiB' : "
    "datum.value >= 1024 ? format(datum.value / 1024, '~r') + ' KiB' : datum.value + ' B'"
)
_CROSS = "M-1,-1L1,1M1,-1L-1,1"


@dataclass(frozen=True, slots=True)
class Drawn:
    """A chart with the words that go above and below it."""

    title: str
    caption: str
    chart: Any
    sets: dict[str, Rows]
    """The rows, by the names under which the chart asks for them."""


class Data:
    """Rows kept out of Altair, which would check each against Vega-Lite's schema: seconds for a large sweep."""

    def __init__(self) -> None:
        self.sets: dict[str, Rows] = {}

    def __call__(self, rows: Rows) -> Any:
        """A chart of these rows, which it asks for by name."""
        name = f"rows-{len(self.sets)}"
        self.sets[name] = rows
        return alt.Chart(alt.NamedData(name=name))


def load_title(experiment: ExperimentResult) -> str:
    """The axis of load in words."""
    axis = experiment.load_axis
    name = f" ({axis.name})" if axis.title and axis.title != axis.name else ""
    return f"{axis.words}{name}{f', {axis.unit}' if axis.unit not in {'', 'B'} else ''}"


def axis_of_load(experiment: ExperimentResult, loads: Iterable[float]) -> Any:
    """Log 2 where the loads span it, linear where they do not; a tick at each load that was measured."""
    values = sorted(set(loads))
    wide = values[0] > 0 and values[-1] / values[0] > 4
    kind = {"type": "log", "base": 2} if wide else {"type": "symlog"} if values[-1] > 50 else {"type": "linear"}
    axis: dict[str, Any] = {"title": load_title(experiment), "format": "~r"}
    if len(values) <= 16:
        axis["values"] = values
    elif kind["type"] == "symlog":
        # On such a scale the library's own ticks are linear, and all but two would be hidden.
        decades = (10.0**power for power in range(math.ceil(math.log10(values[-1]))))
        axis["values"] = [*values[:1], *(tick for tick in decades if values[0] < tick < values[-1]), values[-1]]
    if experiment.load_axis.unit == "B":
        axis["labelExpr"] = _BYTES_LABEL
    return alt.X("load:Q", scale=alt.Scale(**kind, nice=False, padding=14), axis=alt.Axis(**axis))


def y_axis(field: str, title: str, over: Iterable[float | None] = ()) -> Any:
    """The upright axis: from zero, or logarithmic with ticks at 1, 2 and 5 where ``over`` spans too much for that."""
    known = [value for value in over if value is not None and value > 0]
    if not plotdata.wide(known):
        axis = alt.Axis(format=",~r", tickCount=6)
        return alt.Y(f"{field}:Q", title=title, scale=alt.Scale(zero=True, nice=True), axis=axis)
    low, high = min(known) * 0.85, max(known) * 1.15
    steps = (1, 2, 5) if high / low < 3000 else (1,)
    decades = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    ticks = [step * 10.0**decade for decade in decades for step in steps if low <= step * 10.0**decade <= high]
    scale = alt.Scale(type="log", nice=False, domain=[low, high])
    return alt.Y(f"{field}:Q", title=title, scale=scale, axis=alt.Axis(format=",~r", values=ticks))


class Legend:
    """One colour and shape a series, and a click on the legend that leaves only some in sight."""

    def __init__(self, labels: Sequence[str]) -> None:
        names = list(dict.fromkeys(labels))
        columns = max(1, min(len(names), 74 // (max(map(len, names), default=1) + 5)))
        legend = alt.Legend(columns=columns) if len(names) > 1 else None
        scale = alt.Scale(domain=names)
        self.colour = alt.Color("series:N", scale=scale, legend=legend)
        self.shape = alt.Shape("series:N", scale=scale, legend=legend)
        self.picked = alt.selection_point(name="picked", fields=["series"], bind="legend")
        self.opacity = alt.when(self.picked).then(alt.value(1)).otherwise(alt.value(0.07))
        self.many = len(names) > 1


def layered(layers: list[Any], legend: Legend) -> Any:
    """The layers as one chart. Vega-Lite hears clicks on a legend only through the first layer that has it."""
    at = next(at for at, layer in enumerate(layers) if layer.encoding.color is not alt.Undefined)
    layers[at] = layers[at].add_params(legend.picked)
    return alt.layer(*layers)


def tips_of(*fields: tuple[str, str]) -> list[Any]:
    """Tooltips: each field of a row with its title."""
    return [alt.Tooltip(f"{field}:N", title=title) for field, title in fields]


def standard_tips(experiment: ExperimentResult, legend: Legend) -> list[Any]:
    """What a measured point says of itself."""
    series = [("series", "series")] if legend.many else []
    return tips_of(
        *series,
        ("tip_load", experiment.load),
        ("tip_throughput", "throughput"),
        ("tip_rate", "rate"),
        ("tip_latency", "latency"),
        ("tip_validity", "validity"),
    )


def crosses(data: Data, rows: Rows, x: Any, y: Any, tips: list[Any]) -> list[Any]:
    """A cross over each point that is not valid."""
    wrong = [row for row in rows if row["validity"] == "invalid"]
    if not wrong:
        return []
    return [
        data(wrong)
        .mark_point(shape=_CROSS, size=150, style="ceiling-rule", strokeDash=[1, 0])
        .encode(x, y, tooltip=tips)
    ]


def sentences(parts: list[str]) -> str:
    """A caption of those parts that say something."""
    kept = [part for part in parts if part]
    text = ". ".join(part[0].upper() + part[1:] for part in kept)
    return f"{text}." if text else ""
