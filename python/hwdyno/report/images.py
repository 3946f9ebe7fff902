"""The charts as PNG, SVG and PDF for papers and slides, in light colours on white."""

from __future__ import annotations

import textwrap
from pathlib import Path
from typing import Any, Literal

from hwdyno import door
from hwdyno.printable import printable
from hwdyno.report import theme
from hwdyno.report.charts import Chart, charts_of
from hwdyno.words import Run

Format = Literal["png", "svg", "pdf"]

WIDTH, HEIGHT = 640, 320
SCALE = 2.0
"""PNG pixels a point: sharp in print at column width."""
_LINE = 105


def spec_of(chart: Chart) -> dict[str, Any]:
    """The Vega-Lite document of a chart that stands alone: its title, its caption, its size and its colours."""
    spec = {**chart.spec(), "width": WIDTH, "height": HEIGHT}
    spec["title"] = {"text": chart.title, "subtitle": textwrap.wrap(chart.caption, _LINE)}
    spec["config"] = theme.config()
    return spec


def draw(chart: Chart, kind: Format) -> bytes:
    """One chart as the bytes of a file."""
    import vl_convert

    spec = spec_of(chart)
    if kind == "png":
        return bytes(vl_convert.vegalite_to_png(spec, scale=SCALE))
    if kind == "svg":
        return str(vl_convert.vegalite_to_svg(spec)).encode()
    return bytes(vl_convert.vegalite_to_pdf(spec))


def write(run: Run, directory: Path, kind: Format, *, overwrite: bool = False) -> list[Path]:
    """Draw every chart of a Run into ``directory``, one file each; gives their paths. Raises ``UserError``."""
    door.output_folder(directory)
    paths = []
    for chart in charts_of(printable(run)):
        path = directory / f"{chart.name}.{kind}"
        door.write_output(path, draw(chart, kind), overwrite=overwrite)
        paths.append(path)
    return paths
