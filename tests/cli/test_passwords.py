"""No command shows or stores the password of a database's URL, however the URL is spelled."""

from __future__ import annotations

from pathlib import Path

import pytest
from here import sample
from hwdyno.cli.main import main

SECRET = "s3cr3t"
AT = "127.0.0.1:9/runs?connect_timeout=2"
URLS = (
    f"postgresql://me:{SECRET}@{AT}",
    f"POSTGRESQL://me:{SECRET}@{AT}",
    f"postgres://:{SECRET}@{AT}",
    f"postgresql://me:a/{SECRET}@{AT}",
    f"postgresql://me:12/{SECRET}@{AT}",
    f"postgresql://me:a@{SECRET}@{AT}",
    f"postgresql://me:a {SECRET}@{AT}",
    f"postgresql://me:100%{SECRET}@{AT}",
    f"postgresql://me:a?{SECRET}#@{AT}",
    f"postgresql://127.0.0.1:9/runs?user=me&password={SECRET}",
    f"mysql://me:{SECRET}@{AT}",
    f"host=127.0.0.1 port=9 password={SECRET}",
)
ROOT = Path(__file__).parents[2]
RUN = str(ROOT / "tests" / "data" / "run-1.json")
FIO = str(next(iter(sorted((ROOT / "tests" / "data" / "fio").glob("*.json")))))
COMMANDS = (
    ("import", FIO, "--no-page"),
    ("history",),
    ("history", "--send"),
    ("history", "--rebuild"),
    ("report", "last"),
    ("compare", "last", RUN),
    ("export", "last", "--csv", "out.csv"),
    ("fleet",),
    ("serve", "--port", "70000"),
    ("study", "storage-by-block-size", "--merge", "last", "last"),
    ("memory", "--threads", "1", "--runtime", "10ms", "--budget", "1s", "--no-page"),
    ("memory", "--threads", "1", "--dry-run"),
)


@pytest.mark.parametrize("named_by", ["option", "environment"])
@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
def test_no_command_shows_or_stores_a_password(
    words: tuple[str, ...],
    named_by: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("HWDYNO_HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)
    # One command is tried with each spelling, the others with some: all of them read a URL by one function.
    for url in URLS if words == ("history",) else URLS[:: sample(4, 1)]:
        if named_by == "environment":
            monkeypatch.setenv("HWDYNO_STORE", url)
            main(list(words))
        else:
            main([*words, "--store", url])
        out, err = capfd.readouterr()
        assert SECRET not in out and SECRET not in err, url
        assert "internal error" not in err, (url, err)
        for path in tmp_path.rglob("*"):
            assert SECRET not in path.name, url
            assert path.is_dir() or SECRET.encode() not in path.read_bytes(), (url, path)
