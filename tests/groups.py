"""Control groups for tests, where this user may make them."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path

from here import missing


@contextlib.contextmanager
def group(controller: str, files: dict[str, str]) -> Iterator[Path]:
    """A control group with these limits, of whichever version is here; skips where none may be made."""
    top = Path("/sys/fs/cgroup")
    version_1 = {"io": "blkio"}.get(controller, controller)
    parent = top / version_1 if (top / version_1).is_dir() else top
    with contextlib.suppress(OSError):
        (parent / "cgroup.subtree_control").write_text(f"+{controller}")
    made = parent / f"hwdyno-test-{os.getpid()}"
    try:
        made.mkdir()
    except OSError as error:
        missing(f"no control group may be made here ({error.strerror}); the rule is tested on a made Run")
    try:
        for file, text in files.items():
            if (made / file).exists():
                (made / file).write_text(text)
                break
        else:
            missing(f"no {controller} controller here; the rule is tested on a made Run")
        yield made
    finally:
        made.rmdir()
