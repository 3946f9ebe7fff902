"""One process that performs commands again and again: a request a line on its input, its own figures a line back."""

from __future__ import annotations

import atexit
import contextlib
import ctypes
import functools
import gc
import io
import json
import os
import re
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

from hwdyno.cli.main import main
from hwdyno.measure import engine
from hwdyno.measure.hosts.agents_site import of_commands

_PLANTED: list[object] = []


def plant(kind: str, place: Path) -> None:
    """A leak, so that the soak is seen to find it."""
    if kind == "memory":
        # Written, because a page that no one wrote takes no memory.
        _PLANTED.append(bytearray(os.urandom(4096) * 64))
    elif kind == "little memory":
        # 1 kB a command: less than anyone would see by the page.
        _PLANTED.append(os.urandom(1000))
    elif kind == "object":
        # Of the interpreter's own pools, which the C library does not see.
        _PLANTED.append([len(_PLANTED)])
    elif kind == "descriptor":
        _PLANTED.append(os.open("/dev/null", os.O_RDONLY))
    elif kind == "thread":
        threading.Thread(target=threading.Event().wait, daemon=True).start()
    elif kind == "disk":
        (place / f"left-{len(list(place.iterdir()))}").write_bytes(b"x" * 100_000)
    elif kind == "process":
        _PLANTED.append(subprocess.Popen(["sleep", "600"], start_new_session=True))


class _Mallinfo(ctypes.Structure):
    """``struct mallinfo2`` of mallinfo(3)."""

    _fields_ = [
        *((name, ctypes.c_size_t) for name in ("arena", "ordblks", "smblks", "hblks", "hblkhd", "usmblks", "fsmblks")),
        *((name, ctypes.c_size_t) for name in ("uordblks", "fordblks", "keepcost")),
    ]


def in_use() -> dict[str, float]:
    """Bytes that the C library allocated and no one freed, without its free memory; nothing where it is not glibc."""
    try:
        mallinfo = ctypes.CDLL(None).mallinfo2
    except AttributeError:
        return {}
    mallinfo.restype = _Mallinfo
    found = mallinfo()
    return {"in use": found.uordblks + found.hblkhd}


def settle_bounded_caches() -> None:
    """Empty or fill what has a greatest size: it grows for hundreds of commands and is no leak. What has none stays."""
    for candidate in gc.get_objects():
        if isinstance(candidate, functools._lru_cache_wrapper) and candidate.cache_parameters()["maxsize"] is not None:
            candidate.cache_clear()
    re.purge()
    # It keeps the last names of attributes, in 4,096 places.
    sys._clear_type_cache()
    if numpy := sys.modules.get("numpy"):
        # NumPy keeps the data of freed arrays, up to seven of each size below 1 KiB (its multiarray/alloc.c).
        for size in range(1, 1024):
            _ = [numpy.empty(size, numpy.uint8) for _ in range(7)]


def figures() -> dict[str, float]:
    """This process: memory (proc(5): RssAnon, VmRSS), descriptors, threads, CPU time, and what is in use.

    That is bytes of the C library, and blocks and objects of the interpreter, whose pools it does not see.
    """
    settle_bounded_caches()
    gc.collect()
    lines = (line.partition(":") for line in Path("/proc/self/status").read_text().splitlines())
    status = {name: value.split()[0] for name, _, value in lines if value.split()}
    times = os.times()
    return in_use() | {
        "anonymous": int(status["RssAnon"]) * 1024,
        "resident": int(status["VmRSS"]) * 1024,
        "descriptors": sum(1 for _ in Path("/proc/self/fd").iterdir()),
        "threads": int(status["Threads"]),
        "blocks": sys.getallocatedblocks(),
        "objects": len(gc.get_objects()),
        "cpu_s": sum(times[:4]),
    }


def close_agents() -> None:
    """End the agents of this command, which live as long as a process whose only command it is."""
    if commands := os.environ.get("HWDYNO_AGENTS"):
        site = of_commands(commands)
        site.close()
        atexit.unregister(site.close)
        of_commands.cache_clear()


def perform(request: dict[str, Any]) -> dict[str, Any]:
    """Perform one command in this process, with what it prints kept apart."""
    before = dict(os.environ)
    os.environ.update(request["environment"])
    out, err = (io.TextIOWrapper(io.BytesIO(), encoding="utf-8") for _ in range(2))
    try:
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            status = main(request["words"])
    finally:
        close_agents()
        os.environ.clear()
        os.environ.update(before)
    if request["plant"]:
        plant(request["plant"], Path(request["place"]))
    err.seek(0)
    says = err.read()[-2000:]
    # What was printed is as long as the store has Runs, and would count as in use.
    out.close()
    err.close()
    return {"status": status, "says": says} | figures()


if __name__ == "__main__":
    engine.survey()  # What the process keeps until its end is in no command's folder.
    answers = os.fdopen(os.dup(1), "w")
    for line in sys.stdin:
        answer = perform(json.loads(line))
        answers.write(json.dumps(answer) + "\n")
        answers.flush()
