"""Starts programs from a small process: a child's peak of memory (``ru_maxrss``) includes its parent's at exec."""

from __future__ import annotations

import json
import os
import sys


def start(request: dict[str, object]) -> dict[str, float]:
    """Run one program to its end, and give its status, CPU seconds and peak of memory in bytes."""
    words, environment = request["words"], request["environment"]
    assert isinstance(words, list) and isinstance(environment, dict)
    pid = os.posix_spawnp(
        words[0], words, environment, setsid=True,
        file_actions=[
            (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),
            (os.POSIX_SPAWN_OPEN, 1, os.devnull, os.O_WRONLY, 0),
        ],
    )  # fmt: skip
    _, status, usage = os.wait4(pid, 0)
    return {
        "status": os.waitstatus_to_exitcode(status),
        "cpu_s": usage.ru_utime + usage.ru_stime,
        "peak_bytes": usage.ru_maxrss * 1024,
    }


if __name__ == "__main__":
    answers = os.fdopen(os.dup(1), "w")
    for line in sys.stdin:
        answers.write(json.dumps(start(json.loads(line))) + "\n")
        answers.flush()
