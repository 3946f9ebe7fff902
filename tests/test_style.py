"""Every text that a finding prints is plain technical English; ``conftest.py`` checks those of all other tests."""

from __future__ import annotations

import ast
import math
import random
import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import cache
from itertools import groupby
from pathlib import Path
from statistics import median
from typing import Any

import pytest
from hwdyno.analysis.estimates import interval
from hwdyno.analysis.resources import all_resources
from hwdyno.explain import findings
from hwdyno.explain.findings import explain
from hwdyno.explain.findings.bottleneck import find_limit
from hwdyno.explain.findings.rule import Case, contrast, quantity
from hwdyno.measure.sweep import octaves
from hwdyno.model.machine import Machine
from hwdyno.model.point_details import Note
from hwdyno.model.words import ExperimentResult, Measurement, Run, Value
from made_experiment import made_experiment
from made_memory import flops, result
from made_memory import point as bare_point
from made_run import ALL
from made_run import measured as made_point
from simulated_runs import at, experiment, make_run, the
from simulation.host import SimulatedMachine
from style import OLD_WORDS, STILTED, find_faults
from tidy.remarks import bare_code, python_remarks


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("The storage hands back 3.1 GB/s.", "hands back"),
        ("the storage is full.", "neither a capital"),
        ("Only 1 operations failed.", "plural"),
        ("Only 3 operation failed.", "plural"),
        ("It moved 1.5 GB/s, which is 1500 MB/s.", "two units"),
        ("It reached 327 MB/s (299 MB/s to 355 MB/s).", "unit three times"),
        ("The  device is full.", "space"),
        (f"The device {'is very ' * 13}full.", "words"),
        ("The device is full. it waits.", "small letter"),
    ],
)
def test_text_out_of_style_is_found(text: str, fault: str) -> None:
    assert any(fault in message for message in find_faults(text)), find_faults(text)


def _texts(run: Run) -> list[str]:
    explained = explain(run)
    texts = [text for found in explained.findings for text in (found.says, found.advice)]
    for measured_experiment in explained.experiments:
        texts += [
            find_limit(Case(explained, measured_experiment, at)).says for at in range(len(measured_experiment.points))
        ]
    return texts


PREPOSITIONS = (
    "About|Above|Across|After|Against|Along|Among|Around|As|At|Before|Behind|Below|Beside|Besides|Between|Beyond|By|During|"
    "For|From|In|Inside|Into|Of|On|Outside|Over|Past|Per|Since|Through|To|Towards|Under|Until|With|Within|Without"
)


@cache
def _remarks(path: Path) -> list[tuple[bool, str]]:
    """The comments and docstrings of a file, each with whether it documents an item."""
    return list(_read_remarks(path))


def _read_remarks(path: Path) -> Iterator[tuple[bool, str]]:
    text = path.read_text()
    if path.suffix == ".rs":
        for block in re.findall(r"(?m)(?:^[ \t]*//.*\n)+", text):
            lines = [line.strip() for line in block.splitlines()]
            # An inner or outer doc comment ends where the next kind of comment begins.
            for marker, comments in groupby(lines, key=lambda line: re.match(r"//[/!]?", line)[0]):  # type: ignore[index]
                yield len(marker) == 3, " ".join(comment.removeprefix(marker).strip() for comment in comments)
        yield from ((False, comment) for comment in re.findall(r"(?m)^[^\"\n]*[^\"\s/][^\"\n]*?//(.*)$", text))
        return
    yield from python_remarks(text)


def test_remarks_are_comments_and_docstrings() -> None:
    source = """r'''Opens 'a file'''  # the first

x = ['# none', "it's", f'{x!r} #']  # the second

class A:
    # of two
    # lines
    b: int
    "the third"
    c = (
        "no docstring",
    )
"""
    assert list(python_remarks(source)) == [
        (True, "Opens 'a file"), (False, "the first"), (False, "the second"),
        (True, "the third"), (False, "of two lines"),
    ]  # fmt: skip
    assert "none" not in bare_code(source) and "second" not in bare_code(source)


def _sources() -> list[Path]:
    root = Path(__file__).parents[1]
    files = [path for folder in ("python", "tests", "benchmarks") for path in (root / folder).rglob("*.py")]
    files += [path for path in (root / "crates").rglob("*.rs") if "target" not in path.parts]
    return files


def test_comments_and_docstrings_are_plain() -> None:
    files = _sources()
    phrases = {phrase: re.compile(rf"(?<![\w-]){re.escape(phrase)}(?!\w)") for phrase in (*STILTED, *OLD_WORDS)}
    assert len(files) > 900
    found = []
    for path in files:
        texts = "\n".join(text for _, text in _remarks(path)).lower()
        # To look for a text is fast, and few files have any of them.
        found += [f"{path}: {phrase}" for phrase in phrases if phrase in texts and phrases[phrase].search(texts)]
    assert found == []


def test_docstring_begins_with_what_it_describes() -> None:
    """A whole sentence or a noun phrase: no preposition, and no mere reference to another place."""
    elsewhere = re.compile(rf"(?:{PREPOSITIONS}|See)\b")
    assert [
        f"{path}: {text[:60]}"
        for path in _sources()
        for is_doc, text in _remarks(path)
        if is_doc and elsewhere.match(text)
    ] == []


def test_names_of_tests_are_short() -> None:
    names = [
        name
        for path in Path(__file__).parent.rglob("*.py")
        for name in re.findall(r"(?m)^ *def (test_\w+)", path.read_text())
    ]
    assert len(names) > 2000
    assert median(name.removeprefix("test_").count("_") + 1 for name in names) <= 6


def _opened(text: ast.JoinedStr) -> Iterator[str]:
    """Labels of points outside brackets: one of a point with many parameters alone fills a sentence."""
    depth = 0
    for part in text.values:
        if isinstance(part, ast.Constant):
            depth += str(part.value).count("(") - str(part.value).count(")")
        elif isinstance(part, ast.FormattedValue):
            name = ast.unparse(part.value)
            if re.fullmatch(r"(?!.*ceiling)[\w.]+\.label", name) and not depth:
                yield f"{name}: {ast.unparse(text)}"


def test_a_points_label_stands_in_brackets() -> None:
    files = Path(findings.__file__).parent.glob("*.py")
    texts = [
        node for file in files for node in ast.walk(ast.parse(file.read_text())) if isinstance(node, ast.JoinedStr)
    ]
    assert len(texts) > 300
    assert [label for text in texts for label in _opened(text)] == []


@pytest.mark.parametrize("name", sorted(set(ALL) - {"hostile"}))
def test_made_runs_texts_are_in_style(name: str) -> None:
    wrong = {text: faults for text in _texts(ALL[name]()) if (faults := find_faults(text))}
    assert not wrong


@pytest.mark.parametrize("seed", range(8))
def test_simulated_machines_texts_are_in_style(seed: int) -> None:
    draw = random.Random(seed)
    machine = SimulatedMachine.random(seed, steal=draw.choice([0.0, 0.2]), noise=draw.choice([0.005, 0.4]))
    run = make_run(
        machine,
        experiment(machine, "iodepth", [at(iodepth=2**n) for n in range(7)]),
        experiment(machine, "bs", [at(rw="read", bs=4096 << n, iodepth=8) for n in range(6)]),
        experiment(machine, "numjobs", [at(rw="randwrite", numjobs=2**n) for n in range(4)]),
    )
    wrong = {text: faults for text in _texts(run) if (faults := find_faults(text))}
    assert not wrong


def test_resource_words_are_in_style() -> None:
    for resource in all_resources().values():
        lines = [
            f"Possible causes: {resource.above_ceiling.cause}.",
            f"{resource.above_ceiling.test}: hwdyno {resource.name}",
            f"Possible causes: {resource.steps_down[0]}. Watch {resource.steps_down[1]}.",
            f"{resource.on_faults}, then repeat.",
            f"Not measured: {', '.join(resource.limits)}.",
        ]
        wrong = {line: faults for line in lines if (faults := find_faults(line))}
        assert not wrong, resource.name


def test_numbers_carry_one_unit_and_the_digits_that_tell_them_apart() -> None:
    assert contrast("49.3 µs", "13.1 µs") == "49 → 13 µs"
    assert contrast("1.10 ns", "167 ns") == "1.1 → 167 ns"
    assert contrast("122 GFLOP/s", "241 GFLOP/s", "vs") == "122 vs 241 GFLOP/s"
    assert contrast("3.70 GHz", "3.55 GHz") == "3.70 → 3.55 GHz"
    assert contrast("637 µs", "1.01 ms") == "637 µs → 1.0 ms"
    assert quantity(Value(327e6, "bytes/s", 299e6, 355e6)) == "327 MB/s ±8.6%"


# --- The examples of the style: the text of each


def _run(*results: ExperimentResult, machine: Machine | None = None) -> Run:
    return Run("x", "", None, (machine or Machine(),), "quick", "hwdyno run", results)


def _gemm(n: int, *values: float, **more: Any) -> Measurement:
    made = made_point({"operation": "gemm", "n": n}, 1.0, 1, n)
    return replace(
        made, throughput=interval(list(values), "FLOP/s"), rate=None, latency_ns=None, streams=(), samples=None,
        concurrency=None, repeats=len(values), repeat_values=tuple(values), counters={}, conditions={}, **more,
    )  # fmt: skip


def _linpack(*points: Measurement) -> Run:
    return _run(made_experiment("compute.linpack", "compute", "?", "n", "linpack", points))


def _varying() -> Run:
    wide = replace(_gemm(2000, *[87.8e9] * 3), throughput=Value(87.8e9, "FLOP/s", 56.2e9, 119.4e9))
    others = (
        replace(_gemm(1000 * n, *[80e9] * 3), throughput=Value(80e9, "FLOP/s", 70e9, 90e9)) for n in (1, 3, 4, 5, 6, 7)
    )
    return _linpack(wide, *others)


def _halved() -> Run:
    note = Note("median_of_repeats", "the median")
    return _linpack(_gemm(2000, 122e9, 241e9, 241.5e9, 240.5e9, 241e9, notes=(note,)), _gemm(3000, 241e9, 241e9))


def _awake() -> Run:
    made = made_point({"load_streams": 1}, 50_000, 1, 1)
    assert made.latency_ns is not None
    point = replace(
        made, latency_ns=replace(made.latency_ns, p50=13.1e3), throughput=Value(1e5, "operations/s"),
        details={"idle_p50_ns": 49.3e3, "load_bytes_s": 5.93e9},
    )  # fmt: skip
    return _run(made_experiment("network.loaded", "network", "?", "load_streams", "network_latency", (point,)))


def _rising() -> Run:
    machine = SimulatedMachine(latency_one_s=50e-6, operations_s=1e6, p=8)
    return make_run(machine, experiment(machine, "numjobs", [at(numjobs=n) for n in (1, 2, 4)]))


def _small_cache() -> Run:
    def ns(size: float) -> float:
        return math.exp(math.log(1.1) + math.log(167 / 1.1) / (1 + (5.2 * (1 << 20) / size) ** 4))

    points = [
        bare_point(1e9 / ns(size), "operations/s", ns(size), working_set=size, pages="2m", locality="random")
        for size in octaves(64 << 10, 256 << 20, 8)
    ]
    cpu = {"threads": 2, "cores": 2, "caches": [{"level": 3, "type": "unified", "size_bytes": 32 << 20}]}
    machine = Machine.of_survey({"cpu": cpu, "hypervisor": "kvm"})
    return _run(result("memory_latency", "working_set", *points), machine=machine)


EXAMPLES: list[tuple[Callable[[], Run], str, str]] = [
    (_varying, "interval_not_reached", r"7 compute results vary by more than ±10% \(worst: gemm n=2000, ±36%\)\."),
    (
        _halved,
        "outlying_repeats",
        r"One of 5 repeats was half the others \(gemm n=2000: 122 vs 241 GFLOP/s\); the median is reported\.",
    ),
    (
        _awake,
        "network_bufferbloat",
        r"Latency falls under load \(49 → 13 µs\): idle CPUs sleep and must be woken for each message\..*",
    ),
    (_rising, "still_rising", r"Still rising at 4 jobs; try more \(randread 4 KiB: [\d.]+ [MG]B/s\)\..*"),
    (
        _small_cache,
        "claimed_cache",
        r"L3 reads as 32 MiB, but this guest behaves as if it had about [345][\d.]* MiB \(latency 1\.\d → 1\d\d ns\)\.",
    ),
]


@pytest.mark.parametrize(
    ("made", "rule", "expected"), EXAMPLES, ids=lambda argument: argument if isinstance(argument, str) else ""
)
def test_findings_match_the_styles_examples(made: Callable[[], Run], rule: str, expected: str) -> None:
    says = the(explain(made()), rule).says
    assert re.fullmatch(expected, says), says


def test_limits_have_share_or_next_test() -> None:
    full = explain(_run(result("compute_flops", "threads", flops(112.5e9, "avx512"))))
    (experiment_,) = full.experiments
    limit = find_limit(Case(full, experiment_, 0))
    assert (limit.kind, limit.says) == ("ceiling reached", "At 95% of the AVX-512 FP64 peak.")
    half = explain(_run(result("compute_flops", "threads", flops(60e9, "avx512"))))
    limit = find_limit(Case(half, half.experiments[0], 0))
    assert limit.kind == "not identified" and limit.says.startswith(
        "Limit not identified: nothing measured was above 90% (AVX-512 FP64 peak 51%). Not measured: "
    )
    machine = SimulatedMachine()
    idle = explain(make_run(machine, experiment(machine, "bs", [at(bs=65536)])))
    point = replace(idle.experiments[0].points[0], counters={}, latency_ns=None)
    idle = replace(idle, experiments=(replace(idle.experiments[0], points=(point,), curves=()),))
    why = find_limit(Case(idle, idle.experiments[0], 0)).says
    assert "Limit not identified" in why and " Next test: `hwdyno storage " in why


VAGUE_VARIABLES = {"one", "each", "rest", "what", "it", "these", "those", "them"}
"""Names that no variable, parameter or field has: it is called by what it holds."""
_VAGUE = re.compile(rf"\b(?:{'|'.join(VAGUE_VARIABLES)})\b")
STORED_FIELDS = {"python/hwdyno/model/point_details.py": {"what"}}
"""Fields that are keys of stored Runs, by file."""


def _vague_variables(source: str) -> Iterator[tuple[int, str]]:
    """The line and the name of each variable and parameter in a source whose name says nothing."""
    if not _VAGUE.search(bare_code(source)):
        return
    for node in ast.walk(ast.parse(source)):
        name: str | None = None
        if isinstance(node, ast.arg):
            name = node.arg
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            name = node.id
        elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
            name = node.attr
        elif isinstance(node, ast.ExceptHandler | ast.MatchAs | ast.MatchStar):
            name = node.name
        if name in VAGUE_VARIABLES:
            yield node.lineno, str(name)


@pytest.mark.parametrize(
    ("source", "name"),
    [
        ("for one in runs: pass", "one"),
        ("[each for each in runs]", "each"),
        ("{key: what for key, (what, _) in runs.items()}", "what"),
        ("sorted(runs, key=lambda one: one.id)", "one"),
        ("with open(path) as these: pass", "these"),
        ("one = sorted(runs)", "one"),
        ("first, *rest = runs", "rest"),
        ("if (it := find(runs)): pass", "it"),
        ("def show(what, limit=1): pass", "what"),
        ("def show(*, each): pass", "each"),
        ("class Work:\n    what: str", "what"),
        ("self.each = 1", "each"),
        ("try: pass\nexcept OSError as those: pass", "those"),
    ],
)
def test_a_variable_that_says_nothing_is_found(source: str, name: str) -> None:
    assert [found for _, found in _vague_variables(source)] == [name]
    assert list(_vague_variables(re.sub(rf"\b{name}\b", "run", source))) == []


def test_variables_say_what_they_hold() -> None:
    root = Path(__file__).parents[1]
    folders = ("python", "tests", "benchmarks", "release", "docs")
    files = [path for folder in folders for path in sorted((root / folder).rglob("*.py"))]
    assert len(files) > 700
    vague = [
        (str(path.relative_to(root)), line, name) for path in files for line, name in _vague_variables(path.read_text())
    ]
    assert [f"{path}:{line}: {name}" for path, line, name in vague if name not in STORED_FIELDS.get(path, ())] == []
    assert {path for path, _, _ in vague} == set(STORED_FIELDS), "an exception that nothing needs"
