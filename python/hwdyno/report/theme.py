"""The colours of charts and page: fixed ones for paper, or the page's own variables.

Series colours follow Okabe & Ito's set for colour-blind readers (jfly.uni-koeln.de/color), darkened or lightened until
each has a contrast of 3:1 to its background (WCAG 2.2, 1.4.11); shapes repeat the distinction.
"""

from __future__ import annotations

from hwdyno.report.svg import Paint

SERIES_LIGHT = ("#0072b2", "#cf4d00", "#00855f", "#b4528c", "#9a6b00", "#3a86c8", "#6a7280", "#7b4bb3")
SERIES_DARK = ("#56b4e9", "#ff8a4c", "#2fc79a", "#e79ac6", "#e8b53a", "#9ccff5", "#a9b2bd", "#c39beb")

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


def paint(*, page: bool = False) -> Paint:
    """The colours of pictures: fixed ones on white, or the page's variables for light, dark and print."""
    count = len(SERIES_LIGHT)
    if not page:
        return Paint(**LIGHT, series=SERIES_LIGHT)
    return Paint(
        **{name: f"var(--{name})" for name in LIGHT}, series=tuple(f"var(--series-{at})" for at in range(count))
    )


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
