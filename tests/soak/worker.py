"""One process that performs commands again and again: a request a line on its input, its own figures a line back."""

from __future__ import annotations

import contextlib
import gc
import io
import json
import os
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

from hwdyno.cli.main import main

_PLANTED: list[object] = []


def plant(kind: str, place: Path) -> None:
    """A leak, so that the soak is seen to find it."""
    if kind == "memory":
        # Written, because a page that nobody wrote takes no memory.
        _PLANTED.append(bytearray(os.urandom(4096) * 64))
    elif kind == "descriptor":
        _PLANTED.append(os.open("/dev/null", os.O_RDONLY))
    elif kind == "thread":
        threading.Thread(target=threading.Event().wait, daemon=True).start()
    elif kind == "disk":
        (place / f"left-{len(list(place.iterdir()))}").write_bytes(b"x" * 100_000)
    elif kind == "process":
        _PLANTED.append(subprocess.Popen(["sleep", "600"], start_new_session=True))


def figures() -> dict[str, float]:
    """This process: memory (proc(5): RssAnon, VmRSS), descriptors, threads, objects of the interpreter, CPU time."""
    gc.collect()
    lines = (line.partition(":") for line in Path("/proc/self/status").read_text().splitlines())
    status = {name: value.split()[0] for name, _, value in lines if value.split()}
    times = os.times()
    return {
        "anonymous": int(status["RssAnon"]) * 1024,
        "resident": int(status["VmRSS"]) * 1024,
        "descriptors": sum(1 for _ in Path("/proc/self/fd").iterdir()),
        "threads": int(status["Threads"]),
        "objects": len(gc.get_objects()),
        "cpu_s": sum(times[:4]),
    }


def perform(request: dict[str, Any]) -> dict[str, Any]:
    """Perform one command in this process, with what it prints kept apart."""
    before = dict(os.environ)
    os.environ.update(request["environment"])
    out, err = (io.TextIOWrapper(io.BytesIO(), encoding="utf-8") for _ in range(2))
    try:
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            status = main(request["words"])
    finally:
        os.environ.clear()
        os.environ.update(before)
    if request["plant"]:
        plant(request["plant"], Path(request["place"]))
    err.seek(0)
    return {"status": status, "says": err.read()[-2000:]} | figures()


if __name__ == "__main__":
    answers = os.fdopen(os.dup(1), "w")
    for line in sys.stdin:
        answer = perform(json.loads(line))
        answers.write(json.dumps(answer) + "\n")
        answers.flush()
