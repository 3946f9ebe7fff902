"""The made Runs, each made once, for tests of what reports show of them."""

from __future__ import annotations

import made_run

MADE = {name: make() for name, make in made_run.ALL.items()}
WHOLE = MADE["whole"]
