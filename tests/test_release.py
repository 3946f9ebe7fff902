"""The release's own parts: packing a wheel, and what makes one unfit; `.ci/package` builds and tries the real ones."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import urllib.request
import zipfile
from pathlib import Path

import pytest
from hwdyno.system.foreign import parse_toml

from release import advisories, build, check, supply, trial

ROOT = Path(__file__).parents[1]
FILES = {
    "hwdyno/_engine.abi3.so": b"\x7fELF GLIBC_2.2.5\0GLIBC_2.17\0" + bytes(2000),
    **{f"hwdyno-0.1.0.data/data/share/{name}": b"text" for name in check.SHARE},
}


@pytest.fixture
def wheel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(check, "run", lambda *words: "manylinux_2_17_x86_64")
    return made(tmp_path, FILES)


def made(folder: Path, files: dict[str, bytes]) -> Path:
    path = folder / "hwdyno-0.1.0-cp310-abi3-manylinux2014_x86_64.whl"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as out:
        for name, data in files.items():
            out.writestr(name, data)
    return path


def test_a_fit_wheel_is_one_line(wheel: Path) -> None:
    assert re.fullmatch(r"hwdyno-.*\.whl: 0\.00 MB, glibc 2\.17", check.check_wheel(wheel))


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"hwdyno/_engine.abi3.so": b"GLIBC_2.17\0GLIBC_2.34\0"}, r"needs glibc 2\.34, and may need 2\.17"),
        ({"hwdyno/_engine.abi3.so": b"GLIBC_2.17\0.debug_info\0"}, "is not stripped"),
        ({"hwdyno/big": os.urandom(9_000_000)}, "and may have 8000000"),
        ({f"hwdyno-0.1.0.data/data/share/{check.SHARE[0]}": None}, "lacks bash-completion"),
    ],
)
def test_an_unfit_wheel_is_refused(wheel: Path, change: dict[str, bytes | None], says: str) -> None:
    files = {name: data for name, data in {**FILES, **change}.items() if data is not None}
    with pytest.raises(build.BuildError, match=says):
        check.check_wheel(made(wheel.parent, files))


def test_versions_of_all_parts_are_one() -> None:
    from hwdyno import __version__

    assert check.version() == __version__


def test_release_needs_clean_tagged_tree(monkeypatch: pytest.MonkeyPatch) -> None:
    answers = {"status": "", "tag": "v9.9.9\n"}
    monkeypatch.setattr(check, "run", lambda *words: answers[words[1]])
    with pytest.raises(build.BuildError, match=f"has no tag v{check.version()}"):
        check.tag()
    answers["tag"] = f"v{check.version()}\n"
    assert check.tag() == f"v{check.version()}"
    answers["status"] = " M README.md\n"
    with pytest.raises(build.BuildError, match="the tree has changes"):
        check.tag()


def test_checksums_are_those_of_sha256sum(tmp_path: Path) -> None:
    (tmp_path / "b").write_bytes(b"2")
    (tmp_path / "a").write_bytes(b"1")
    (tmp_path / "SHA256SUMS").write_text(check.checksums([tmp_path / "b", tmp_path / "a"]))
    done = subprocess.run(["sha256sum", "-c", "SHA256SUMS"], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0 and done.stdout == "a: OK\nb: OK\n"


def test_every_locked_package_has_its_hash(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    nowhere = supply.Advisories(online=False)
    assert supply.check_packages(nowhere) == "packages: every one has its hash"
    (tmp_path / "bare.lock").write_text("numpy==2.0.0\n")
    monkeypatch.setattr(supply, "ROOT", tmp_path)
    monkeypatch.setattr(supply, "LOCKS", ("bare.lock",))
    with pytest.raises(build.BuildError, match=r"without a hash: numpy==2\.0\.0"):
        supply.check_packages(nowhere)


ADVISORY = """id: PYSEC-2021-66
affected:
- package: {name: Jinja2, ecosystem: PyPI}
  ranges:
  - {type: GIT, events: [{introduced: '0'}]}
  - {type: ECOSYSTEM, events: [{introduced: '0'}, {fixed: 2.11.3}, {introduced: 3.0.0}, {last_affected: 3.1.0}]}
  versions: ["4.0rc1"]
"""


@pytest.mark.parametrize(
    ("version", "affected"),
    [
        ("2.9", True),
        ("2.11.2", True),
        ("2.11.3", False),
        ("2.12", False),
        ("3.0.0", True),
        ("3.1.0", True),
        ("3.1.1", False),
        ("4.0rc1", True),
    ],
)
def test_advisories_of_a_folder_are_answered_as_osv_does(version: str, affected: bool, tmp_path: Path) -> None:
    (tmp_path / "vulns").mkdir()
    (tmp_path / "vulns" / "PYSEC-2021-66.yaml").write_text(ADVISORY)
    query = json.dumps({"package": {"name": "jinja2", "ecosystem": "PyPI"}, "version": version}).encode()
    with advisories.served(tmp_path) as url, urllib.request.urlopen(url, query) as answer:
        found = json.load(answer)
    assert [advisory["id"] for advisory in found.get("vulns", [])] == (["PYSEC-2021-66"] if affected else [])


def test_audit_needs_advisories(tmp_path: Path) -> None:
    (tmp_path / "README.md").write_text("nothing")
    with pytest.raises(build.BuildError, match="has no advisory in OSV's format"):
        advisories.read(tmp_path)


def test_the_crates_rules_are_the_same_with_a_clone_of_the_advisories(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(supply, "run", lambda *words: "")
    rules = parse_toml(supply.rules_with(tmp_path / "clone", tmp_path).read_text(), "deny.toml")
    assert rules["advisories"].pop("db-path") == str(tmp_path)
    assert rules == parse_toml((ROOT / "deny.toml").read_text(), "deny.toml")


def test_oldest_libraries_are_bounds_of_project() -> None:
    oldest = trial.oldest_libraries()
    assert "numpy==2.0" in oldest and "scipy==1.14" in oldest and "tomli==2.0; python_version < '3.11'" in oldest
    assert not [line for line in oldest if ">=" in line]


def test_the_pythons_here_start_and_are_found_by_their_versions() -> None:
    for version, program in trial.pythons().items():
        says = trial.started([program, "-c", "import sys; print('%d.%d' % sys.version_info[:2])"], ROOT, os.environ)
        assert says == (0, f"{version}\n")


def test_crate_licences_are_allowed() -> None:
    """What cargo deny checks at a release, of the licences alone, on each run."""
    allowed = set(parse_toml((ROOT / "deny.toml").read_text(), "deny.toml")["licenses"]["allow"])
    words = ("cargo", "metadata", "--locked", "--offline", "--format-version", "1")
    packages = json.loads(build.run(*words))["packages"]
    assert len(packages) > 20
    for package in packages:
        choices = re.split(r" OR |/", package["license"].replace("(", "").replace(")", ""))
        assert any(set(choice.split(" AND ")) <= allowed for choice in choices), (package["name"], package["license"])


def test_a_tool_that_fails_or_is_missing_is_one_line() -> None:
    with pytest.raises(build.BuildError, match="cannot be started"):
        build.run("no-such-tool-of-hwdyno")
    with pytest.raises(build.BuildError, match="ended with status 3"):
        build.run(sys.executable, "-c", "raise SystemExit(3)")
