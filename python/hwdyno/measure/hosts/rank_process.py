"""One rank's agent as a separate process: what a kernel does to it, a launcher of the ranks does not see."""

from __future__ import annotations

import contextlib
import os
import sys
import threading

from hwdyno import _engine


def main(processors: str, life: str) -> None:
    """Serve the standard input with these processors, until it ends or the pipe ``life`` does: its rank's."""
    with contextlib.suppress(OSError, AttributeError):  # A processor that went offline, or a system without masks.
        os.sched_setaffinity(0, {int(processor) for processor in processors.split(",")})
    threading.Thread(target=end_with, args=(int(life),), daemon=True).start()
    _engine.serve()


def end_with(pipe: int) -> None:
    """End this process when a pipe ends."""
    os.read(pipe, 1)
    os._exit(1)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2])
