"""Every reader accepts or refuses in one line: its seeds, what once failed, and inputs that are nearly right."""

from __future__ import annotations

import ast
import cProfile
import importlib
import inspect
import pkgutil
import zlib
from collections.abc import Iterator
from pathlib import Path

import hwdyno
import pytest
from fuzz.mutation import mutants
from fuzz.targets import FAILED, TARGETS, Target
from here import sample
from hwdyno import formats
from hwdyno.formats import fio_job, workload
from hwdyno.measure import peers
from hwdyno.model.words import LONGEST_ERROR, UserError
from hwdyno.system import foreign
from hwdyno.system.foreign import Table
from read_format import read_run

INPUTS = sample(36, 1000)
"""A reader; `make fuzz` goes on from there, guided by coverage."""
MORE = {"override": sample(60, 1000)}
"""A reader that refuses nearly all of them."""
NAMES = {target.name for target in TARGETS}


@pytest.mark.parametrize("target", TARGETS, ids=lambda target: target.name)
def test_each_seed_is_accepted(target: Target) -> None:
    assert target.corpus()
    for seed in target.corpus():
        target.read(seed)


@pytest.mark.parametrize("target", TARGETS, ids=lambda target: target.name)
def test_kept_inputs_are_handled(target: Target) -> None:
    for data in [*(path.read_bytes() for path in target.failed()), *target.kept()]:
        target(data)


def test_failed_inputs_belong_to_a_reader() -> None:
    assert {folder.name for folder in FAILED.iterdir()} <= NAMES


def test_each_reader_of_a_format_and_of_a_peers_output_is_fuzzed() -> None:
    assert {*formats.list_formats(), *formats.list_folder_formats()} <= NAMES
    modules = (
        importlib.import_module(f"hwdyno.measure.peers.{module.name}")
        for module in pkgutil.iter_modules(peers.__path__)
    )
    readers = {module.__name__.rpartition(".")[2] for module in modules if hasattr(module, "parse_output")}
    assert {f"peer_{name}" for name in readers} <= NAMES


READERS = {"parse_json", "json_at", "parse_toml", "parse_yaml", "parse_xml"}
"""The doors of ``foreign.py`` for documents of others."""
ELSEWHERE_TRIED = {
    "measure/hosts/messages.py": "one line of an agent or a rank: tests/measure/test_hostile_agents.py sends it",
    "measure/kubernetes/follow.py": "what kubectl prints: tests/measure/test_kubernetes.py sends what is no JSON",
}
"""Modules that read documents of others and are no reader of the table, each with what tries it."""
WRITERS = {
    "formats/fio_write.py": "writes fio's result",
    "formats/fio_log.py": "writes fio's logs",
    "formats/fio_job_options.py": "writes what fio calls a parameter",
    "formats/fio_job/keys.py": "is the table of keys, and prints it",
    "formats/table.py": "writes CSV and Parquet",
    "formats/openmetrics.py": "writes metrics",
}


def package(module: str) -> Path:
    return Path(hwdyno.__file__).parent / module


def list_calls(module: Path) -> Iterator[str]:
    text = module.read_text()
    for node in ast.walk(ast.parse(text)) if "foreign" in text else ():
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            place = node.func.value
            yield from [node.func.attr] if isinstance(place, ast.Name) and place.id == "foreign" else []


@pytest.fixture(scope="module")
def entered() -> set[str]:
    """Modules of which a function was called while every seed was read."""
    seeds = [(target, seed) for target in TARGETS for seed in target.corpus()]
    # It notes calls in C, in a twentieth of the time of a trace function.
    profile = cProfile.Profile()
    with profile:
        for target, seed in seeds:
            target.read(seed)
    root = str(package(""))
    codes = [entry.code for entry in profile.getstats() if not isinstance(entry.code, str)]
    # The body of a module or class runs where it is imported, which is no call.
    called = {code.co_filename for code in codes if code.co_flags & inspect.CO_OPTIMIZED}
    return {str(Path(name).relative_to(root)) for name in called if name.startswith(root)}


def test_each_module_that_reads_a_document_of_others_is_fuzzed(entered: set[str]) -> None:
    modules = [path for path in package("").rglob("*.py") if path.name != "foreign.py"]
    reading = {str(path.relative_to(package(""))) for path in modules if READERS & set(list_calls(path))}
    assert len(reading) > 10
    assert reading - entered == set(ELSEWHERE_TRIED)


def test_each_file_of_the_formats_is_entered_by_a_seed(entered: set[str]) -> None:
    files = {str(path.relative_to(package(""))) for path in package("formats").rglob("*.py")}
    silent = {name for name in files - entered if not is_a_table(package(name))}
    assert silent == set(WRITERS)


def is_a_table(module: Path) -> bool:
    """Whether it has no function: nothing in it can be called."""
    return not any(isinstance(node, ast.FunctionDef) for node in ast.walk(ast.parse(module.read_text())))


def test_no_document_is_parsed_around_door() -> None:
    """JSON is also read where the engine or this process wrote it; the other parsers are in ``foreign.py`` alone.

    Manifests are only written.
    """
    parsers = {"tomllib", "tomli", "yaml", "xml", "configparser", "pickle", "plistlib"}
    allowed = {"measure/kubernetes/volumes.py", "report/compared_files.py"}
    found = set()
    for path in package("").rglob("*.py"):
        # Most files have none of the words, and need not be parsed.
        text = path.read_text()
        for node in ast.walk(ast.parse(text)) if any(parser in text for parser in parsers) else ():
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            names += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            if parsers & {name.partition(".")[0] for name in names}:
                found.add(str(path.relative_to(package(""))))
    assert found - {"system/foreign.py"} == allowed


@pytest.mark.parametrize("target", TARGETS, ids=lambda target: target.name)
def test_a_spoilt_input_is_accepted_or_refused_in_one_line(target: Target) -> None:
    count = MORE.get(target.name, INPUTS)
    inputs = mutants(target.corpus(), target.words, count, zlib.crc32(target.name.encode()))
    accepted = sum(_accepts(target, data) for data in inputs)
    assert 0 < accepted < count, "the inputs are all alike to it"


def _accepts(target: Target, data: bytes) -> bool:
    try:
        return target(data)
    except Exception as error:
        raise AssertionError(f"{target.name} fails on {data!r}") from error


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ('{"a": 1e999}', "out of range: Infinity"),
        ('{"a": NaN}', "out of range: NaN"),
        ('{"a": [-1e25]}', "out of range: -1e"),
        ('{"a": [1, 2, NaN, 3]}', "out of range: NaN"),
        ('{"a": [1e23, Infinity]}', "out of range: Infinity"),
        ('{"a": [[1, 2], [3, 1' + 25 * "0" + "]]}", "out of range"),
        ('{"a": ' + "9" * 4000 + "}", "a whole number of 13288 bits"),
        ('{"a": "\\ud800"}', "invalid text: '\\ud800'"),
        ('{"a\\u0000": 1}', "invalid text"),
        ("[" * 65 + "]" * 65, "deeper than 64 levels"),
        ("[" * 100_000, "nested too deep"),
        ('{"a": 1', "it may be cut off"),
        (b'{"a": "\xff"}', "is not JSON"),
    ],
)
def test_no_json_gets_in_that_a_run_cannot_hold(text: str | bytes, says: str) -> None:
    with pytest.raises(UserError) as refused:
        foreign.parse_json(text, "x.json")
    assert str(refused.value).startswith("x.json ") and says in str(refused.value)


def test_json_within_range_is_unchanged() -> None:
    document = {"a": [1, -2.5, 1e24, 2**64 - 1, True, None, "é\u2028"], "b": {"c": []}}
    assert foreign.parse_json(
        '{"a": [1, -2.5, 1e24, 18446744073709551615, true, null, "é\u2028"], "b": {"c": []}}', "x"
    ) == (document)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("a: .inf", "out of range"),
        ("a: &x [1]\nb: *x", "an alias of more than one value"),
        ("a: &x\n  b: *x", "an alias of more than one value"),
        ("a: !!int x", "this is not of type int"),
        ('a: !!int ""', "this is not of type int"),
        ("a: !!bool x", "this is not of type bool"),
        ("a: 0x_", "this is not of type int"),
        ('a: "\\UFFFFFFFF"', "not readable YAML"),
        ("a: !!binary x", "could not determine a constructor"),
        ("a: !!set {x}", "could not determine a constructor"),
        ("a: !!python/object/apply:os.system [x]", "could not determine a constructor"),
        ("%YAML " + "9" * 5000 + ".1\n---\na: 1", "not readable YAML"),
        ("[" * 65, "more than 64 levels"),
    ],
)
def test_no_yaml_gets_in_that_is_endless_or_contradicts_its_tags(text: str, says: str) -> None:
    with pytest.raises(UserError) as refused:
        foreign.parse_yaml(text, "x.yaml")
    assert str(refused.value).startswith("x.yaml ") and says in str(refused.value)


def test_yaml_of_plain_values_is_read() -> None:
    text = "a: &x 3\nb: *x\nc: [1.5, yes, ~, 2026-01-32, text]\n"
    assert foreign.parse_yaml(text, "x") == {"a": 3, "b": 3, "c": [1.5, True, None, "2026-01-32", "text"]}


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("a = inf", "out of range"),
        ("a = " + "[" * 100_000, "nested deeper"),
        ("a = " + "9" * 5000, "not a readable TOML file"),
    ],
)
def test_no_toml_gets_in_that_a_run_cannot_hold(text: str, says: str) -> None:
    with pytest.raises(UserError, match=says):
        foreign.parse_toml(text, "x.toml")


def test_table_gives_its_values_by_type() -> None:
    table = Table.from_value(
        {"n": 3, "x": 2.5, "list": [1, 2], "one": 4, "t": "text", "flag": True, "tiny": 1e-300}, "it"
    )
    assert (table.count("n"), table.number("x"), table.numbers("list"), table.text("t")) == (3, 2.5, [1.0, 2.0], "text")
    assert table.numbers("one") == [4.0] and table.number("tiny") == 0.0
    for call, says in (
        (lambda: table.count("x"), "it has x = 2.5, which must be a whole number of 0 or more"),
        (lambda: table.count("n", 4), "a whole number of 4 or more"),
        (lambda: table.number("flag"), "it has flag = True, which must be a number"),
        (lambda: table.number("x", most=1), "a number from 0 to 1"),
        (lambda: table.numbers("t"), "numbers of 0 or more"),
        (lambda: table.text("n"), "must be a text"),
        (lambda: table.table("n"), "must be a table"),
        (lambda: table.count("gone"), "it has no 'gone'"),
        (lambda: Table.from_value([], "it"), "it needs a table"),
        (lambda: table.to_dataclass(workload.TrainingWorkload), "it: unknown key 'n'; known: name"),
    ):
        with pytest.raises(UserError, match=says):
            call()


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda path: path.write_bytes(b"a" * 11), "is too large for its kind"),
        (lambda path: path.write_bytes(b"ab\xff"), "not readable as text: byte 2 is 0xff"),
        (lambda path: path.mkdir(), "is a directory"),
        (lambda path: None, "no such file"),
    ],
)
def test_binary_file_is_refused(tmp_path: Path, make: object, says: str) -> None:
    path = tmp_path / "x"
    make(path)  # type: ignore[operator]
    with pytest.raises(UserError, match=says):
        foreign.read_text(path, 10)


def test_an_endless_file_is_not_read_to_its_end() -> None:
    with pytest.raises(UserError, match="too large"):
        foreign.read_text(Path("/dev/zero"), 1 << 20)


def test_files_that_include_each_other_many_times_end() -> None:
    files = {str(level): f"include {level + 1}\n" * 50 for level in range(9)} | {"9": ""}
    with pytest.raises(UserError, match="more than 256 files are included"):
        fio_job.parse("include 0\n", "x.fio", included=files.__getitem__)


def test_every_error_is_one_line() -> None:
    says = str(UserError("a\nb\u2028\ud800" + "x" * 5000 + " mend it"))
    assert len(says) <= LONGEST_ERROR and says.startswith("a b ") and says.endswith("mend it") and says.encode()


def test_a_result_names_its_file_where_it_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "stream.txt"
    path.write_text("Function    Best Rate MB/s\nTriad:  1e999 0.1 0.1 0.1\n")
    with pytest.raises(UserError, match=r"stream\.txt: '1e999' is not a number in range"):
        read_run(path)
