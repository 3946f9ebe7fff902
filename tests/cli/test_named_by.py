"""What is printed of a stored Run finds it again, also where ``--store`` names the place."""

from __future__ import annotations

import errno
import io
import os
from pathlib import Path

import pytest
from hwdyno.cli.options import named_by
from hwdyno.report.terminal import print_run
from hwdyno.system.store import Store, StoreError
from made_run import empty_run


@pytest.mark.parametrize(
    ("where", "words"),
    [
        (None, ("empty",)),
        ("a b", ("empty", "--store", "a b")),
        ("postgresql://me:secret@host/runs", ("empty", "--store", "postgresql://me@host/runs")),
    ],
)
def test_run_is_named_with_its_store(where: str | None, words: tuple[str, ...]) -> None:
    assert named_by(empty_run(), where) == words


def test_printed_command_is_quoted() -> None:
    out = io.StringIO()
    print_run(empty_run(), file=out, named=named_by(empty_run(), "a b"))
    assert "hwdyno report empty --store 'a b' --verbose" in out.getvalue()


def test_a_journal_that_has_no_room_for_its_first_line_promises_no_points(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(descriptor: int, data: bytes) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr("hwdyno.system.store.journal.write_all", full)
    with pytest.raises(StoreError, match=r"^cannot create .*journal: the disk is full; free space") as caught:
        Store(tmp_path).begin(empty_run())
    assert "points" not in str(caught.value)
    assert not any((tmp_path / "runs").iterdir())
