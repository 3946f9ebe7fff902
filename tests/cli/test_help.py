"""The help: one screen a command, examples that run, suggestions, completion, the manual page, and the lessons."""

from __future__ import annotations

import json
import shlex
import shutil
import subprocess
from dataclasses import replace
from functools import cache, lru_cache
from pathlib import Path

import made_store as made
import pytest
from advised import MEASURING
from here import missing, needs
from hwdyno.cli import completion, help, man
from hwdyno.cli.main import COMMANDS, GROUPS, main, make_parser, overview
from hwdyno.explain import findings
from hwdyno.explain.findings import lessons
from hwdyno.measure import engine
from hwdyno.system.store import json_schema, to_json
from made_clients import whole_curve

from release import check

ROOT = Path(__file__).parents[2]
NAMES = tuple(command.name for command in COMMANDS)


def printed(capsys: pytest.CaptureFixture[str], *words: str, status: int = 0) -> str:
    """What a command prints, on stderr where it fails."""
    assert main(list(words)) == status
    out, err = capsys.readouterr()
    return err if status else out


def examples() -> list[str]:
    return [example for name in NAMES for example in make_parser(name).guide.examples]


def fits(text: str) -> bool:
    lines = text.splitlines()
    return len(lines) <= help.MAX_LINES and max(map(len, lines)) <= help.MAX_COLUMNS


@pytest.mark.parametrize("name", NAMES)
def test_help_of_command_fits_one_screen(
    name: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "300")
    text = printed(capsys, name, "--help")
    assert fits(text), text
    guide = make_parser(name).guide
    assert len(guide.options) <= 10 and len(guide.examples) == 3
    assert all(f"  {example}\n" in text for example in guide.examples)
    assert ("--help-all" in text) == (len(help.list_options(make_parser(name))) > len(guide.options) > 0)


def test_the_overview_fits_one_screen() -> None:
    assert fits(overview()) and all(f"  {name} " in overview() for name in NAMES)


def test_overview_has_each_command_in_one_group() -> None:
    assert sorted(name for names in GROUPS.values() for name in names) == sorted(NAMES)
    lines = overview().splitlines()
    headings = [lines.index(f"{wanted}:") for wanted in GROUPS]
    assert headings == sorted(headings) and lines[headings[0] + 1].startswith("  run ")


@pytest.mark.parametrize("name", NAMES)
def test_help_all_shows_every_option_once(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    text = printed(capsys, name, "--help-all")
    shown = [line.split()[0] for line in text.splitlines() if line.startswith("  --")]
    wanted = [help.spelling(action) for action in help.list_options(make_parser(name))]
    rows = (
        [row for row, _ in make_parser(name).guide.rows() if row.startswith("--")]
        if make_parser(name).guide.rows
        else []
    )
    assert sorted(shown) == sorted([*wanted, *(row.split()[0] for row in rows)])
    assert max(map(len, text.splitlines())) <= help.MAX_COLUMNS


@cache
def stored_run() -> str:
    """A Run with what the examples ask of one."""
    depths = made.experiment(*(made.point(depth, 1e8 * min(depth, 8)) for depth in (1, 2, 4, 8, 16, 32)))
    return to_json(replace(findings.explain(made.run(depths, *whole_curve().experiments)), id="r1"))


SURVEYED = lru_cache(maxsize=1)(engine.survey)
"""A survey watches the machine for half a second: one serves every example."""


@pytest.mark.parametrize("line", examples())
def test_every_example_runs(
    line: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HWDYNO_HOME", str(tmp_path / "home"))
    monkeypatch.setattr(engine, "survey", lambda *_: SURVEYED(Path(__file__).parent))
    run = stored_run()
    runs = tmp_path / "home" / "runs"
    runs.mkdir(parents=True)
    (tmp_path / "runs").mkdir()
    for path in (runs / "r1.json", tmp_path / "runs" / "r1.json", tmp_path / "before.json", tmp_path / "after.json"):
        path.write_text(run)
    (tmp_path / "fio.json").write_text((Path(__file__).parents[1] / "data/fio/depths.json").read_text())
    (tmp_path / "readings.jsonl").write_bytes((Path(__file__).parents[1] / "data/engine-readings.jsonl").read_bytes())
    (tmp_path / "table.csv").write_text("rw,bs,QD,BW (MB/s)\nread,128k,8,3210\n")
    program, name, *words = shlex.split(line.partition(" >")[0].partition(" |")[0])
    assert program == "hwdyno"
    if "server" in words or name == "serve":  # It would serve until someone comes.
        read = make_parser(name).read(words)
        assert name == "serve" or read.question == ["server"]
        return
    if name == "kubernetes" and words[0] != "manifest":  # tests/measure/test_kubernetes.py has a cluster for it.
        assert make_parser(name).read(words).what == words[0]
        return
    dry = ["--dry-run"] if (name in MEASURING and words not in ([],)) or name in MEASURING - {"study"} else []
    before = set(tmp_path.iterdir())
    assert main([name, *words, *dry]) in {0, 3 if name == "import" else 0}, capsys.readouterr().err
    assert capsys.readouterr().out or set(tmp_path.iterdir()) - before


@pytest.mark.parametrize(
    ("words", "meant"),
    [
        ("storrage", "storage"),
        ("storage --iodpeth 4", "--iodepth"),
        ("storage --no-pgae", "--no-page"),
        ("storage --rw randraed --dry-run", "randread"),
        ("storage iodpeth --dry-run", "storage.iodepth"),
        ("storage --output-format fio-jsn", "fio-json"),
        ("run --only storage.gird --dry-run", "storage.grid"),
        ("run --profile quikc --dry-run", "quick"),
        ("study sata-ssd-queu", "sata-ssd-queue"),
        ("training --workload unet3 --dry-run", "unet3d"),
        ("training --checkpoint llama3-8 --dry-run", "llama3-8b"),
        ("explain kne", "knee"),
        ("completion bsh", "bash"),
        ("run kernel.toml --dry-run", "storage_blocks"),
        ("run key.toml --dry-run", "profile"),
    ],
)
def test_misspelt_word_gets_right_one(
    words: str, meant: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    experiment = '[[experiment]]\nname = "a.b"\nkernel = "storage_bloks"\nload = "bs"\naxes = { bs = 4096 }\n'
    (tmp_path / "kernel.toml").write_text(experiment)
    (tmp_path / "key.toml").write_text('profil = "quick"\n')
    error = printed(capsys, *words.split(), status=2)
    assert f"did you mean '{meant}'?" in error and error.count("\n") == 1


def test_word_like_none_gets_no_suggestion(capsys: pytest.CaptureFixture[str]) -> None:
    assert "did you mean" not in printed(capsys, "storage", "--xyzzy", "1", status=2)
    assert "unexpected argument 'b'" in printed(capsys, "explain", "knee", "b", status=2)


@pytest.mark.parametrize(
    ("typed", "offered"),
    [
        ("hwdyno sto", {"storage"}),
        ("hwdyno storage --rw randr", {"randread", "randrw"}),
        ("hwdyno storage --rw read,randw", {"read,randwrite"}),
        ("hwdyno storage --iode", {"--iodepth", "--iodepth-batch-submit", "--iodepth-batch-complete-min"}),
        ("hwdyno storage metad", {"metadata"}),
        ("hwdyno memory --profile st", {"standard"}),
        ("hwdyno study sata", {"sata-ssd-queue"}),
        ("hwdyno explain kne", {"knee"}),
        ("hwdyno storage --path x", set()),
    ],
)
def test_bash_completes(typed: str, offered: set[str]) -> None:
    words = typed.split()
    call = f'COMP_WORDS=({" ".join(words)}); COMP_CWORD={len(words) - 1}; _hwdyno; printf "%s\\n" "${{COMPREPLY[@]}}"'
    done = subprocess.run(
        ["bash", "-uc", f"{completion.script('bash')}\n{call}"], capture_output=True, text=True, check=True
    )
    assert done.stderr == "" and set(done.stdout.split()) == offered


@pytest.mark.parametrize("shell", completion.SCRIPTS)
def test_each_shell_reads_its_script(shell: str, tmp_path: Path) -> None:
    script = tmp_path / "script"
    script.write_text(completion.script(shell))
    assert all(f" {name}" in script.read_text() for name in NAMES)
    if shutil.which(shell) is None:
        missing(f"{shell} is not installed")
    subprocess.run([shell, "-n", str(script)], check=True)


@needs(shutil.which("groff") is not None, "groff is not installed")
def test_the_manual_page_has_no_fault_and_every_option() -> None:
    page = man.page()
    done = subprocess.run(
        ["groff", "-man", "-ww", "-K", "utf8", "-T", "utf8", "-P", "-cbu"],
        input=page,
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stderr == ""
    options = {help.spelling(action) for name in NAMES for action in help.list_options(make_parser(name))}
    assert options <= set(done.stdout.split())


def test_wheels_files_are_written_below_folder(tmp_path: Path) -> None:
    assert main(["man", "--write", str(tmp_path)]) == 0
    written = {str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*") if path.is_file()}
    assert written == {f"share/{name}" for name in check.SHARE}
    schema = json.loads((tmp_path / "share" / "hwdyno" / "hwdyno.run-2.schema.json").read_text(encoding="utf-8"))
    assert schema == json_schema()


@pytest.mark.parametrize("rule", [rule.name for rule in findings.all_rules()])
def test_each_rule_has_a_lesson(rule: str, capsys: pytest.CaptureFixture[str]) -> None:
    lesson = lessons.lesson(rule)
    assert all(f"\n**{part}:** " in lesson.text for part in ("Law", "Example", "Wrong when", "Source"))
    assert sum(line.startswith("    ") for line in lesson.text.splitlines()) >= 1, "a drawing"
    assert 0 < len(lesson.title) <= 60 and lesson.title[0].isupper() and lesson.title[-1] not in ".?"
    assert fits(lesson.text), lesson.text
    assert printed(capsys, "explain", rule).startswith(f"# {lesson.title}")


def test_lesson_states_its_rules_effect() -> None:
    """A rule whose effect changes by mistake contradicts what its lesson says to users."""
    effects = {
        "degrades": "A warning degrades its points.",
        "doubts": "It leaves its points unverified.",
        "explains": "It comes before the findings that it explains.",
    }
    for rule in findings.all_rules():
        stated = lessons.lesson(rule.name).text.partition("\n**Effect:** ")[2].partition("\n")[0]
        assert stated == " ".join(text for effect, text in effects.items() if getattr(rule, effect)), rule.name


def test_explain_alone_lists_every_rule(capsys: pytest.CaptureFixture[str]) -> None:
    lines = printed(capsys, "explain").splitlines()
    assert [line.split()[0] for line in lines] == [rule.name for rule in findings.all_rules()]
    assert {path.stem for path in lessons.FOLDER.iterdir()} == {rule.name for rule in findings.all_rules()}
