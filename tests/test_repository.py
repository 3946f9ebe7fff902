"""What GitHub reads of the repository: workflows that lint, forms with their questions; and a version's command."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from datetime import date
from pathlib import Path
from typing import Any

import pytest
import yaml
from here import not_packaged

from release import build, version

ROOT = Path(__file__).parents[1]
GITHUB = ROOT / ".github"
WORKFLOWS = sorted((GITHUB / "workflows").glob("*.yml"))
ACTIONLINT = os.environ.get("HWDYNO_ACTIONLINT") or shutil.which("actionlint")


def read(path: Path) -> Any:
    """A YAML file; its key ``on`` is read as true."""
    return yaml.safe_load(path.read_text())


def commands(path: Path) -> str:
    """All that a workflow's steps run."""
    return "\n".join(step.get("run", "") for job in read(path)["jobs"].values() for step in job["steps"])


def test_workflows_pass_actionlint() -> None:
    if not ACTIONLINT:
        not_packaged("actionlint is missing; go install github.com/rhysd/actionlint/cmd/actionlint@v1.7.12")
        return
    examples = sorted((ROOT / "docs" / "ci").glob("*.yml"))
    done = subprocess.run([ACTIONLINT, *WORKFLOWS, *examples], capture_output=True, text=True, check=False, cwd=ROOT)
    assert done.returncode == 0, done.stdout


def test_workflows_run_what_a_checkout_runs() -> None:
    assert ".ci/run" in commands(GITHUB / "workflows/tests.yml")
    assert '.ci/long "$PART"' in commands(GITHUB / "workflows/long.yml")
    assert "make wheel" in commands(GITHUB / "workflows/wheels.yml")
    assert "make release" in commands(GITHUB / "workflows/release.yml")
    parts = read(GITHUB / "workflows/long.yml")["jobs"]["long"]["strategy"]["matrix"]["part"]
    assert f"parts=${{*:-{' '.join(parts)}}}" in (ROOT / ".ci/long").read_text()
    machines = read(GITHUB / "workflows/wheels.yml")["jobs"]["build"]["strategy"]["matrix"]["machine"]
    assert tuple(machines) == tuple(build.MACHINES)


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.stem)
def test_workflow_has_few_rights_and_an_end(path: Path) -> None:
    text, workflow = path.read_text(), read(path)
    assert workflow["permissions"] and workflow["permissions"] != "write-all"
    assert all("timeout-minutes" in job for job in workflow["jobs"].values())
    for run in [*re.findall(r"run: (.*)", text), commands(path)]:
        assert "${{" not in run, "an expression in a script may be someone else's code: give it by env"
    assert "secrets." not in text, "trusted publishing and the job's own token need none"


def test_release_is_attested_and_published_without_a_secret() -> None:
    jobs = read(GITHUB / "workflows/release.yml")["jobs"]
    uses = {name: [step.get("uses", "").partition("@")[0] for step in job["steps"]] for name, job in jobs.items()}
    assert "actions/attest-build-provenance" in uses["build"] and "pypa/gh-action-pypi-publish" in uses["pypi"]
    assert jobs["pypi"]["permissions"] == {"id-token": "write"} and jobs["pypi"]["environment"]["name"] == "pypi"


def test_issue_forms_ask_for_machine_and_run() -> None:
    forms = [path for path in (GITHUB / "ISSUE_TEMPLATE").glob("*.yml") if path.name != "config.yml"]
    assert len(forms) == 2
    for path in forms:
        form = read(path)
        fields = [field for field in form["body"] if field["type"] != "markdown"]
        assert form["name"] and form["description"] and len({field["id"] for field in fields}) == len(fields)
        assert "hwdyno machine --json" in path.read_text() and {"machine", "run"} <= {field["id"] for field in fields}
        assert {field["type"] for field in form["body"]} <= {"markdown", "textarea", "input", "dropdown", "checkboxes"}


def test_updates_cover_each_ecosystem() -> None:
    found = {update["package-ecosystem"] for update in read(GITHUB / "dependabot.yml")["updates"]}
    assert found == {"cargo", "github-actions", "docker"} and "make lock" in commands(GITHUB / "workflows/locks.yml")
    assert (ROOT / "CODE_OF_CONDUCT.md").is_file() and (GITHUB / "pull_request_template.md").is_file()


@pytest.fixture
def checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A repository with the files that state a version."""
    for name in ("Cargo.toml", "python/hwdyno/__init__.py"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, tmp_path / name)
    (tmp_path / "CHANGELOG.md").write_text("# Changelog\n\n## 9.1.0 (unreleased)\n\nMore.\n")
    for name in ("GIT_AUTHOR_NAME", "GIT_AUTHOR_EMAIL", "GIT_COMMITTER_NAME", "GIT_COMMITTER_EMAIL"):
        monkeypatch.setenv(name, "a@b.example")
    for words in (["init", "--quiet"], ["add", "."], ["commit", "--quiet", "--message", "x"]):
        build.run("git", *words, folder=tmp_path)
    real = build.run
    monkeypatch.setattr(
        version, "run", lambda *words, folder: "" if words[0] == "cargo" else real(*words, folder=folder)
    )
    return tmp_path


def test_one_command_makes_version_commit_and_tag(checkout: Path) -> None:
    assert version.release_as("9.1.0", checkout, date(2026, 1, 2)) == "v9.1.0"
    assert "## 9.1.0 (2026-01-02)" in (checkout / "CHANGELOG.md").read_text()
    for name, pattern in version.PLACES:
        assert re.findall(pattern, (checkout / name).read_text(), re.MULTILINE) == ["9.1.0"]
    assert build.run("git", "tag", "--points-at", "HEAD", folder=checkout).split() == ["v9.1.0"]
    assert not build.run("git", "status", "--porcelain", folder=checkout)


@pytest.mark.parametrize(
    ("wanted", "says"),
    [
        ("nine", "is no version"),
        ("9.2.0", "has no heading"),
        ("9.1.0", "the tree has changes"),
        ("0.0.1", "no heading"),
    ],
)
def test_version_that_does_not_fit_is_refused(wanted: str, says: str, checkout: Path) -> None:
    if "tree" in says:
        (checkout / "new").write_text("x")
    with pytest.raises(build.BuildError, match=says):
        version.release_as(wanted, checkout)
    assert not build.run("git", "tag", folder=checkout)


def test_older_version_is_refused(checkout: Path) -> None:
    (checkout / "CHANGELOG.md").write_text("## 0.0.1 (unreleased)\n")
    build.run("git", "commit", "--quiet", "--all", "--message", "x", folder=checkout)
    with pytest.raises(build.BuildError, match="newer than"):
        version.release_as("0.0.1", checkout)
