"""Keeps the rules of the house: who may import whom, nothing dead or oversized, plain names; tidy/ has the rules."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from tidy import definitions, duplicates, files, modules, names, rust
from tidy.sources import Tree, find_imports, read_tree, static_imports

ROOT = Path(__file__).parents[1]
HOUSE = read_tree(ROOT / "python" / "hwdyno", "hwdyno")
BENCHMARKS = read_tree(ROOT / "benchmarks", "benchmarks")
TESTS = read_tree(ROOT / "tests")
TESTS = Tree(
    TESTS.root,
    {
        # Each folder with tests is on the path: they import one another by their bare names.
        (bare := name.rpartition(".")[2] if ".test_" in name else name): replace(module, name=bare)
        for name, module in TESTS.modules.items()
    },
)
OUTSIDE = Tree(ROOT, {**BENCHMARKS.modules, **TESTS.modules})
ENGINE = rust.read_crate(ROOT / "crates" / "engine" / "src")
BRIDGE = rust.read_crate(ROOT / "crates" / "bridge" / "src")
FUZZ = rust.read_crate(ROOT / "crates" / "engine" / "fuzz" / "src")

ENTRIES = ("hwdyno.cli.main", "hwdyno.__main__", "hwdyno.api")
"""Where a user comes in: the program, ``python -m hwdyno``, and ``import hwdyno``."""

PURE = {"model", "system", "analysis"}
ALLOWED: dict[str, set[str]] = {
    "model": set(),
    "system": {"model"},
    "analysis": {"model"},
    "formats": PURE,
    # published studies are data: their questions are plain axes, and their tables come from any Run
    "studies": PURE,
    "measure": PURE | {"formats", "studies", "_engine"},
    "explain": PURE,
    "report": PURE | {"explain", "studies", "formats"},
    "cli": PURE
    | {
        *("formats", "studies", "measure", "explain", "report", "session"),
    },
    # joins the two sides of the wall
    "session": {"measure", "explain", "report", "model", "system"},
    "api": {*("analysis", "cli", "explain", "formats", "measure", "model", "report", "session", "system")},
    "_engine": set(),
}
"""What each room may import of the house, besides itself. A room is a module or package below hwdyno."""

INSIDE: dict[str, dict[str, set[str]]] = {
    "model": {
        **{"typed_fields": set(), "machine": {"typed_fields"}, "point_details": set(), "per_element": set()},
        **{
            "errors": set(),
            "words": {"errors", "machine", "per_element", "point_details"},
            "axes": {"per_element", "words"},
            "units": {"words"},
            "unit_readings": {"units"},
            "quantities": {"unit_readings", "units"},
            "histogram": {"words"},
        },
        **{"histogram_arrays": {"histogram", "words"}, "kernels": set()},
    },
    "system": {
        **{"loopback": set(), "optional": set(), "printable": set(), "processes": set(), "suggestions": set()},
        **{"program_name": set(), "foreign": {"suggestions"}, "first_signals": set(), "safe_files": {"signals"}},
        **{"signals": {"first_signals", "processes"}, "memory_limits": set(), "failures": {"memory_limits"}},
        **{"output_files": {"safe_files", "signals"}, "urls": set(), "standard_streams": set()},
        "store": {"foreign", "optional", "output_files", "printable", "safe_files", "signals", "urls"},
        "web_post": set(),
    },
    "analysis": {
        **{"ceilings": set(), "resources": {"ceilings"}, "chances": set(), "estimates": {"chances"}},
        **{"samples": {"chances", "estimates"}, "states": {"chances", "estimates"}, "curves": {"states", "estimates"}},
        "mlperf_storage": set(),
    },
    "measure": {
        **{"topology": set(), "engine": set(), "workspace": set(), "concurrent_runs": set(), "measurement": set()},
        **{"models": set(), "sweep": {"topology"}, "experiments": {"sweep", "topology"}},
        **{"plan": {"experiments", "sweep", "topology"}, "dry_run": {"plan"}},
        # documents for a cluster, and the Runs that come back
        "kubernetes": set(),
        "serving": {"engine"},  # its receiver of answers and its chunks, which measure nothing by themselves
        # a model's process fetches objects by the engine
        "workloads": {"engine", "models", "serving"},
        "hosts": {"concurrent_runs", "engine", "topology", "workloads", "workspace"},
        "peers": {"hosts", "models", "plan"},
        "runner": {
            *("concurrent_runs", "experiments", "hosts", "measurement", "peers", "plan", "sweep", "topology"),
            "workspace",
        },
        "scenarios": {
            *("dry_run", "experiments", "hosts", "kubernetes", "models", "peers", "plan", "runner", "serving", "sweep"),
            *("topology", "workspace"),
        },
    },
    "explain": {
        **{"repeatability": set(), "findings": {"repeatability"}, "comparison": {"findings", "repeatability"}},
        "trends": {"comparison", "findings"},
        "fleet": {"comparison", "repeatability", "trends"},
    },
}
"""What the rooms inside a room may import of one another."""

FOR_TESTS: dict[str, str] = {}
"""Modules that tests and benchmarks alone import, each with its reason."""

DATA = {".csv", ".toml", ".css", ".js", ".j2"}

UNUSED_HERE = {
    "hwdyno.api.measuring.run": "users of Python call it",
    **{
        f"hwdyno.api.stored.{name}": "users of Python call it"
        for name in ("audit", "compare", "fleet", "history", "load")
    },
    "hwdyno.system.signals.end_children": "the benchmarks end their children by it",
    "hwdyno.formats.fio_job.keys.table": "writes the tables of docs/fio-jobs.md, which a test holds to the code",
}
"""Definitions that the package does not use, each with its reason."""

UNUSED_METHODS = {
    **dict.fromkeys(
        (f"hwdyno.formats.grid._Tables.handle_{event}" for event in ("starttag", "endtag", "data")),
        "HTMLParser calls them",
    ),
    **dict.fromkeys(
        (
            "hwdyno.report.serve.http_server.PageServer.handle_error",
            *(
                f"hwdyno.report.serve.http_server._Handler.{method}"
                for method in ("do_HEAD", "log_message", "send_error")
            ),
        ),
        "http.server calls them",
    ),
    "hwdyno.system.printable.Escaping.writelines": "libraries that write to a stream call it",
    "hwdyno.model.machine.Machine.part": "a new resource reads its own part of the survey by it",
}
"""Methods that the package does not use, each with its reason."""

RUST_CIRCLES: list[list[str]] = []
"""Circles of files that are still there: none may be added."""

LONG_FILES: dict[str, str] = {}
"""Files over the limit, each with its reason."""

LONG_IN_PYTHON = {
    "hwdyno.report.page._context": "one row for each name of the page's template",
}
"""Functions of the package over 60 lines, each with its reason."""

LONG_IN_RUST = {
    "crate::loops::compute::x86::available": "one row for each loop that this processor has",
    "crate::object::request::write": "one row for each header that is signed, in the order of their names",
}
"""Functions of the engine over 60 lines, each with its reason."""

DEAD_IN_RUST = {"crate::survey::tree::of_record"}
"""Public items that nothing uses: none may be added."""

UNSAFE = {
    "crate::sys": "system calls, mappings, OpenCL and CUDA",
    "crate::loops::compute": "the loops of SIMD and of matrix tiles, and calls of them",
    "crate::loops::memory::chase": "the chain of pointers that the latency loop follows",
    "crate::loops::memory::lane": "SIMD accesses of a line",
    "crate::loops::memory::neon": "SIMD loops",
    "crate::loops::memory::paced": "loops over raw pointers, and calls of the loops",
    "crate::loops::memory::portable": "loops over raw pointers, so that the compiler may not leave a load out",
    "crate::loops::memory::primitive": "the type of a loop that takes raw pointers",
    "crate::loops::memory::route": "calls of the loops",
    "crate::loops::memory::sve": "SIMD loops",
    "crate::loops::memory::traffic": "calls of the loops, on arrays of its own",
    "crate::loops::memory::x86": "SIMD loops",
}
"""Modules that may say ``unsafe``, each with its reason."""

SAFE_FILES = ("hwdyno.system.safe_files", "crate::safe_files", "crate::sys::beneath")
"""Modules that call the system to make, replace and remove files; everybody else calls them."""

OUTSIDE_SAFE_FILES = {
    (
        "hwdyno.system.store.run_index",
        "sqlite3.connect",
    ): "SQLite opens by name what safe_files made and verified",
    ("hwdyno.system.standard_streams", "os.open"): "the null device, where output goes that has no reader",
    ("crate::sys::apart", "open"): "the null device, in a child whose driver may print",
    ("crate::storage::scratch", "create_dir_all"): "directories of the engine's tests",
    ("crate::storage::scratch", "remove_dir_all"): "likewise",
    ("crate::fuzzing::mutation", "create_dir_all"): "inputs of the engine's tests",
    ("crate::fuzzing::mutation", "write"): "likewise",
    ("crate::fuzzing::storage", "write"): "likewise",
    ("crate::fuzzing::storage", "remove_file"): "likewise",
    ("crate::fuzzing::training", "write"): "likewise",
    ("hwdyno.measure.plan.planning", "replace"): "Sweep.replace changes the axes of a sweep",
    ("hwdyno.measure.scenarios.entry", "replace"): "likewise",
    ("crate::sys::names", "CREATE"): "storage_metadata times it, in a directory that it made, by its handle",
    ("crate::sys::names", "WRONLY"): "likewise",
    ("crate::sys::names", "renameat"): "likewise",
    ("crate::sys::names", "unlinkat"): "likewise",
    (
        "crate::storage::raw::claim",
        "write",
    ): "the guard of raw devices makes nothing",
}
"""What else makes, replaces or removes files, by module and name, each with its reason."""

SAME_CLASS = {
    "Option": "an option of a scenario, and in the interface for Python its value",
    "Run": "the document, and in the interface for Python the document with what a program does with it",
}
"""Names of classes that another module uses too, each with its reason."""

AS_IN_PYTHON = {
    "hwdyno.report.texts.csv": "the file's name is the option for it: --csv",
}
"""Modules with the name of one of the standard library, each with its reason."""

OF_A_TOOL = ("hwdyno.formats", "hwdyno.measure.peers", "hwdyno.measure.workloads")
"""Folders with a file for each tool: the reader of what it prints, and what runs it."""

SAME_FILE = {
    "catalogue": "the entries of a folder: found by walking it, and the scenario of chosen experiments",
    "contention": "what resources cost each other: its scenario, its rounds, its rules and its matrix",
    "elsewhere": "a host without Python: how it is reached, and the Run of its readings",
    "inference_images": "images from files: the workload and its rules",
    "inference_serving": "a served language model: its questions and the workload",
    "kv_cache": "a KV cache on storage: its scenario and its rules",
    "machine": "the words of a machine, and its rows for a reader",
    "object_store": "an object store: its scenario and its ceilings",
    "open_loop": "requests at a stated rate: their fit and their rules",
    "published": "a published table: its reader and its laws",
    "roofline": "the two roofs of a device: their fit and their chart",
    "scaling": "curves over clients: their rules and their tables",
    "serving": "a server of a language model: its scenario and its rules",
    "snia": "SNIA's tests: scenario, rounds, rule, tables and plots",
    "study": "a published study: its scenario and its tables",
    "vector_search": "an index of vectors: its scenario and its rules",
}
"""Names of files in several folders that are one idea, each with what it is."""

VAGUE_KEYS: dict[tuple[str, str], str] = {}
"""Vague names that a file format fixes, each with its reason."""


def assert_none(violations: list[str]) -> None:
    """Fail with all violations, a line each."""
    assert not violations, "\n" + "\n".join(violations)


def test_imports_point_downward_only() -> None:
    assert_none(modules.forbidden_imports(HOUSE, ALLOWED))


def test_every_permission_is_used() -> None:
    assert_none(modules.unused_permissions(HOUSE, ALLOWED))


def test_inner_rooms_import_what_is_allowed() -> None:
    for room, allowed in INSIDE.items():
        tree = HOUSE.inside(room)
        assert_none(modules.forbidden_imports(tree, allowed) + modules.unused_permissions(tree, allowed))
        assert modules.circles(allowed) == []


def test_house_has_ten_rooms() -> None:
    files_of = {path.stem for path in HOUSE.root.glob("*.py")}
    rooms = {HOUSE.room(name) for name in HOUSE.modules} - files_of - {"_engine"}
    assert len(rooms) <= 10 and len(files_of) <= 4


def test_only_hosts_open_engine_and_workloads() -> None:
    inside = INSIDE["measure"]
    assert {room for room, needs in inside.items() if needs & {"engine", "workloads"}} == {
        "hosts",
        "serving",
        "workloads",
    }
    outside = {
        HOUSE.room(name)
        for name, module in HOUSE.modules.items()
        if "hwdyno.measure.engine" in find_imports(module, HOUSE)
    }
    # It serves a measurement, and checks a file against its journal: neither is a point of a plan.
    assert outside == {"measure", "cli"}
    with_engine = [
        name
        for name, module in HOUSE.modules.items()
        if name.startswith("hwdyno.measure.serving")
        and ("engine.R" in module.text or "engine import Chunks" in module.text)
    ]
    reason = "for its receiver and its chunks alone"
    assert with_engine == ["hwdyno.measure.serving.client", "hwdyno.measure.serving.wire"], reason


def test_two_sides_of_wall_never_meet() -> None:
    assert "explain" not in ALLOWED["measure"] and "measure" not in ALLOWED["explain"]
    assert not ALLOWED["report"] & {"measure", "cli"} and not ALLOWED["measure"] & {"report", "cli"}


def test_imports_make_no_circle_of_rooms_or_files() -> None:
    assert modules.circles(ALLOWED) == []
    # What a table imports by its name imports the table's room in turn: that is how a plug-in is made.
    assert modules.circles({name: static_imports(module, HOUSE) for name, module in HOUSE.modules.items()}) == []


def test_a_module_opens_with_one_sentence_and_is_one_thing() -> None:
    assert_none(modules.unopened(HOUSE) + modules.unopened(BENCHMARKS))
    paths = sorted((ROOT / "crates").rglob("*.rs"))
    paths += [module.path for tree in (HOUSE, OUTSIDE) for module in tree.modules.values()]
    assert_none(modules.too_long_files(paths, ROOT, LONG_FILES))


def test_a_package_only_hands_on() -> None:
    assert_none(modules.packages_with_code(HOUSE))


def test_no_module_is_dead() -> None:
    assert_none(modules.dead_modules(HOUSE, ENTRIES, OUTSIDE, FOR_TESTS))
    assert_none(modules.dead_data(HOUSE, DATA))


def test_no_definition_is_dead() -> None:
    live = modules.reached_modules(HOUSE, ENTRIES)
    assert_none(definitions.dead_definitions(HOUSE, live, UNUSED_HERE))
    assert_none(definitions.dead_methods(HOUSE, live, UNUSED_METHODS))


def test_no_helper_of_tests_is_dead() -> None:
    live = {
        name
        for name in OUTSIDE.modules
        if name.startswith("test_")
        or name
        in {
            "conftest",
            "benchmarks.__main__",
            "fuzz.__main__",
            "fuzz.engine",
            "signals.__main__",
            "soak.__main__",
            "soak.worker",
            "soak.launcher",
            "calibration.__main__",
            "retries",
        }
    }
    assert_none(modules.dead_modules(OUTSIDE, live, Tree(ROOT, {}), {}))


def test_a_long_function_says_why() -> None:
    assert_none(definitions.long_functions(HOUSE, LONG_IN_PYTHON) + definitions.long_functions(BENCHMARKS, {}))
    assert_none(rust.long_functions(ENGINE, LONG_IN_RUST) + rust.long_functions(BRIDGE, {}))


def test_files_of_engine_make_no_circle() -> None:
    found = modules.circles({name: rust.find_uses(source, ENGINE) for name, source in ENGINE.items()})
    assert_none([str(circle) for circle in found if circle not in RUST_CIRCLES])


def test_engine_has_no_dead_items() -> None:
    assert_none([item for item in rust.dead_public([ENGINE, BRIDGE, FUZZ]) if item not in DEAD_IN_RUST])


def test_unsafe_stands_in_sys_and_in_the_loops_alone() -> None:
    assert_none(rust.unsafe_outside(ENGINE, UNSAFE))
    assert_none(rust.unsafe_outside(BRIDGE, {}))


def test_safe_files_alone_change_files() -> None:
    found = [(name, *call) for name, module in HOUSE.modules.items() for call in files.python_calls(module)]
    for sources in (ENGINE, BRIDGE):
        found += [(name, *call) for name, source in sources.items() for call in files.rust_calls(source)]
    assert_none(files.outside_of_safe_files(found, SAFE_FILES, OUTSIDE_SAFE_FILES))


def test_names_are_the_fields() -> None:
    introduced = [(file.path, names.python_names(file)) for tree in (HOUSE, OUTSIDE) for file in tree.modules.values()]
    introduced += [(file.path, names.rust_names(file)) for file in (*ENGINE.values(), *BRIDGE.values())]
    pairs = [(str(path.relative_to(ROOT)), name) for path, found in introduced for name in names.vague(found)]
    assert_none([f"{path}: {name}" for path, name in pairs if (path, name) not in VAGUE_KEYS])


def test_one_name_is_one_thing() -> None:
    assert_none(duplicates.repeated_classes(HOUSE, SAME_CLASS))
    assert_none(duplicates.standard_names(HOUSE, AS_IN_PYTHON))


def test_files_of_one_name_are_one_idea() -> None:
    described = HOUSE.children("hwdyno.analysis.resources")
    shared = {name.rpartition(".")[2] for name in described if "\nRESOURCE = " in HOUSE.modules[name].text}
    # A file of cli/ is named by its command.
    product = {name: module for name, module in HOUSE.modules.items() if HOUSE.room(name) != "cli"}
    assert_none(duplicates.repeated_files(replace(HOUSE, modules=product), shared, [OF_A_TOOL], SAME_FILE))


def test_no_test_skips_by_itself() -> None:
    """A skip goes through tests/here.py, so that where everything is required nothing is left out unseen."""
    for path in Path(__file__).parent.rglob("*.py"):
        # DLIO is a package of no distribution, and asks for other versions of ours: its test is for who has it.
        # PyTorch and TensorFlow are gigabytes beside our megabytes: theirs likewise. MLPerf Storage's KV cache is
        # no package, and netperf comes as source only. AIPerf takes 1.1 GB.
        optional = {f"test_peers_{name}.py" for name in ("dlio", "tensorflow", "mlperf_kv", "netperf", "aiperf")}
        if path.name in {"here.py", *optional, Path(__file__).name}:
            continue
        for word in ("pytest.skip(", "mark.skip", "importorskip"):
            assert word not in path.read_text(), f"{path.name} has {word}; use needs() or missing() of tests/here.py"


def test_functions_are_verbs_or_nouns() -> None:
    """``read_limits`` and ``write_share`` say what comes out; ``limits_of`` and ``measured`` do not."""
    found = {str(module.path.relative_to(ROOT)): names.unnamed_results(module) for module in HOUSE.modules.values()}
    assert_none([f"{path}: {name}" for path, names_there in found.items() for name in names_there])
