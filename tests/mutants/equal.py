"""Changes that change nothing that anybody could see, each with the reason."""

from __future__ import annotations

from mutants.changes import Change

EQUAL: dict[tuple[str, str, str], str] = {
    **{
        ("samples.py", "cut = (values[at - 1] + values[at]) / 2", what): "any value between the levels parts them alike"
        for what in ("1 to 2", "2 to 3")
    },
    ("samples.py", "best, at, below = 0.0, 0, 0.0", "0 to 1"): "the first split that explains anything sets it",
    ("samples.py", "min(1.0, rare * float(limit) / count)", "1.0 to 1.25"): "the score's own limits lie within 0 and 1",
    ("samples.py", "return max(0.0, centre - half), min(1.0, centre + half)", "1.0 to 1.25"): "only rounding passes 1",
    (
        "findings/peers.py",
        'large = (case.number("bs") or 0) >= LARGE_BLOCK_BYTES',
        "0 to 1",
    ): "a block of one byte is as little a large one as none",
    (
        "findings/inference_images.py",
        "return self.stages[stage] / (sum(self.stages.values()) or 1.0)",
        "1.0 to 1.25",
    ): "without any stage's time, the share is 0 of whatever it is divided by",
    ("statistics/__init__.py", "seen, at = 0, 0", "0 to 1"): "each pass of the loop sets it before it is read",
}
"""By file (in ``python/hwdyno``), line and change: why no test can tell."""


def why_equal(change: Change) -> str:
    """Why a change changes nothing; empty where it does."""
    return EQUAL.get((change.path.removeprefix("python/hwdyno/"), change.text, change.what), "")
