"""The charts as PNG, SVG and PDF for papers and slides, in light colours on white."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from hwdyno.model.words import Run
from hwdyno.report import svg, theme
from hwdyno.report.charts import Chart, list_charts
from hwdyno.system import optional, output_files
from hwdyno.system.printable import printable

ChartFormat = Literal["png", "svg", "pdf"]

SCALE = 2.5
"""PNG pixels a unit of the picture: sharp in print at column width."""


def draw(chart: Chart, kind: ChartFormat) -> bytes:
    """One chart as the bytes of a file, with its title and its caption; raises ``UserError`` without vl-convert."""
    drawn = svg.draw(chart.picture, theme.paint(), alone=True)
    if kind == "svg":
        return drawn.encode()
    try:
        import vl_convert
    except ImportError as error:
        raise optional.missing("images", f"a chart as {kind}", "--svg needs nothing") from error
    if kind == "png":
        return bytes(vl_convert.svg_to_png(drawn, scale=SCALE))
    return bytes(vl_convert.svg_to_pdf(drawn))


def write(run: Run, directory: Path, kind: ChartFormat, *, overwrite: bool = False) -> list[Path]:
    """Draw every chart of a Run into ``directory``, one file each; gives their paths. Raises ``UserError``."""
    output_files.output_folder(directory)
    paths = []
    for chart in list_charts(printable(run)):
        path = directory / f"{chart.name}.{kind}"
        output_files.write_output(path, draw(chart, kind), overwrite=overwrite)
        paths.append(path)
    return paths
