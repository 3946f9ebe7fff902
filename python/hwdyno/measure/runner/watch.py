"""Takes a site's snapshots and says once when another Run measures on the machine at the same time."""

from __future__ import annotations

from hwdyno.measure.concurrent_runs import name_runs, other_runs
from hwdyno.measure.hosts import Host
from hwdyno.measure.runner.observers import Progress


class Watch:
    """Looks for other Runs between readings, where the counters are read anyway."""

    def __init__(self, host: Host, progress: Progress) -> None:
        self._host, self._progress = host, progress
        self._reported = False

    def snapshot(self) -> dict[str, float]:
        """The host's counters now; see ``Host.snapshot``."""
        found = self._host.snapshot()
        if found.get("other_runs") and not self._reported:
            self._reported = True
            which = name_runs(other_runs() or frozenset())
            self._progress.says(
                f"Another hwdyno run measures on this machine{f' ({which})' if which else ''}; "
                "the results will disturb each other"
            )
        return found
