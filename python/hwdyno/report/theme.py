"""The charts' clothes: one configuration of Vega-Lite in fixed colours for paper, or in the page's own variables.

Series colours follow Okabe & Ito's set for colour-blind readers (jfly.uni-koeln.de/color), darkened or
lightened until each stands 3:1 against its background (WCAG 2.2, 1.4.11); shapes repeat the distinction.
"""

from __future__ import annotations

from typing import Any

SERIES_LIGHT = ("#0072b2", "#cf4d00", "#00855f", "#b4528c", "#9a6b00", "#3a86c8", "#6a7280", "#7b4bb3")
SERIES_DARK = ("#56b4e9", "#ff8a4c", "#2fc79a", "#e79ac6", "#e8b53a", "#9ccff5", "#a9b2bd", "#c39beb")
SHAPES = ("circle", "square", "triangle-up", "diamond", "triangle-down", "cross", "triangle-right", "triangle-left")

LIGHT = {"ink": "#1c1f24", "muted": "#626973", "line": "#e3e5e8", "ceiling": "#8a2b2b", "paper": "#ffffff"}
DARK = {"ink": "#e8eaed", "muted": "#9aa3ad", "line": "#2f353d", "ceiling": "#f0908a", "paper": "#14171b"}

# The page's own surfaces and states, beside the charts' colours.
PAGE_LIGHT = {
    **LIGHT,
    "paper": "#ffffff",
    "desk": "#f6f7f8",
    "accent": "#0a6aa6",
    "good": "#1d7a4f",
    "warn": "#8f5b00",
    "bad": "#b3261e",
    "warn-wash": "#fdf5e4",
    "bad-wash": "#fdeeec",
}
PAGE_DARK = {
    **DARK,
    "desk": "#0e1013",
    "accent": "#63b8f0",
    "good": "#5fcf9a",
    "warn": "#e8b656",
    "bad": "#ff8f85",
    "warn-wash": "#2a2416",
    "bad-wash": "#301c1b",
}

_FONT = "Helvetica, Arial, Liberation Sans, sans-serif"
_PAGE_FONT = 'system-ui, -apple-system, "Segoe UI", Roboto, "Helvetica Neue", Arial, sans-serif'


def config(*, page: bool = False) -> dict[str, Any]:
    """Vega-Lite's ``config``.

    With ``page`` every colour is a CSS variable, so that light, dark and print need no second drawing.
    """
    colour = {name: f"var(--{name})" for name in LIGHT} if page else LIGHT
    series = [f"var(--series-{at})" for at in range(len(SERIES_LIGHT))] if page else list(SERIES_LIGHT)
    font = _PAGE_FONT if page else _FONT
    text = {"font": font, "color": colour["muted"], "fontSize": 11}
    return {
        "background": None if page else colour["paper"],
        "padding": 4 if page else 16,
        "font": font,
        "range": {"category": series, "symbol": list(SHAPES)},
        "view": {"stroke": None},
        "axis": {
            "labelColor": colour["muted"],
            "titleColor": colour["muted"],
            "gridColor": colour["line"],
            "domainColor": colour["muted"],
            "tickColor": colour["line"],
            "labelFontSize": 11,
            "titleFontSize": 11.5,
            "titleFontWeight": "normal",
            "labelOverlap": True,
            "titlePadding": 8,
        },
        "axisX": {"grid": False, "domain": True, "domainColor": colour["line"]},
        "axisY": {
            "domain": False,
            "ticks": False,
            "titleAngle": 0,
            "titleAlign": "left",
            "titleAnchor": "start",
            "titleY": -12,
            "titleX": 0,
            "labelPadding": 6,
        },
        "legend": {
            "labelColor": colour["ink"],
            "titleColor": colour["muted"],
            "labelFontSize": 11.5,
            "labelLimit": 260,
            "symbolSize": 70,
            "symbolStrokeWidth": 1.5,
            "orient": "bottom",
            "title": None,
            "padding": 2,
            "rowPadding": 3,
            "columnPadding": 16,
        },
        "title": {
            "color": colour["ink"],
            "subtitleColor": colour["muted"],
            "anchor": "start",
            "frame": "group",
            "fontSize": 14,
            "fontWeight": 600,
            "subtitleFontSize": 11.5,
            "subtitlePadding": 5,
            "offset": 24,
        },
        "style": {
            "ceiling-rule": {"color": colour["ceiling"], "strokeDash": [6, 4], "strokeWidth": 1.2},
            "ceiling-text": {**text, "color": colour["ceiling"], "align": "right", "baseline": "bottom", "dy": -3},
            "note": {**text},
            "peer": {"fill": colour["paper"], "fillOpacity": 0.6, "strokeWidth": 1.5},
        },
    }


def css() -> str:
    """The page's variables: light, dark by the reader's system or choice, and light again on paper."""
    light, dark = (
        "".join(f"--{name}:{value};" for name, value in colours.items())
        + "".join(f"--series-{at}:{value};" for at, value in enumerate(series))
        for colours, series in ((PAGE_LIGHT, SERIES_LIGHT), (PAGE_DARK, SERIES_DARK))
    )
    return (
        f":root{{color-scheme:light;{light}}}"
        f"@media screen and (prefers-color-scheme:dark){{:root:not([data-theme=light]){{color-scheme:dark;{dark}}}}}"
        f"@media screen{{:root[data-theme=dark]{{color-scheme:dark;{dark}}}}}"
    )
