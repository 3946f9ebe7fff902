"""What a workload is: real software that is measured as a kernel is."""

from __future__ import annotations

from typing import Any, Protocol

from hwdyno.model.words import Declaration


class Workload(Protocol):
    """Software that is measured as a kernel is."""

    declaration: Declaration
    """What it states about itself, as the engine's kernels do."""

    def run(self, parameters: dict[str, Any]) -> dict[str, Any]:
        """Run it once and give its Reading.

        Raises ``ValueError`` for a wrong value and ``OSError`` for what the machine refused.
        """
        ...
