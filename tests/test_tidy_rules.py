"""Each rule of tidy/ finds a violation that is planted, and does not mind a near miss."""

from __future__ import annotations

import textwrap
from pathlib import Path

import pytest
from tidy import definitions, duplicates, files, modules, names, rust
from tidy.sources import Tree, find_imports, read_tree, static_imports

NOTHING = Tree(Path(), {})
TABLE = "import importlib\nCOMMANDS = ('run',)\nimportlib.import_module(f'hwdyno.cli.{name}')\n"
WALK = "import importlib, pkgutil\nfor x in pkgutil.iter_modules(p): importlib.import_module(f'{__name__}.{x.name}')\n"


def written(folder: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(textwrap.dedent(text))
    return folder


def house(folder: Path, **files: str) -> Tree:
    """A package ``hwdyno`` of the modules: ``cli__main`` is ``cli/main.py``, ``cli__`` is ``cli/__init__.py``."""
    paths = {f"{name.replace('__', '/')}.py".replace("/.py", "/__init__.py"): text for name, text in files.items()}
    return read_tree(written(folder, {"__init__.py": "", **paths}), "hwdyno")


def crate(folder: Path, **files: str) -> dict[str, rust.Source]:
    """A crate of the files: ``storage__job`` is ``storage/job.rs``."""
    return rust.read_crate(written(folder, {f"{name.replace('__', '/')}.rs": text for name, text in files.items()}))


def test_hidden_forbidden_import_is_found(tmp_path: Path) -> None:
    allowed: dict[str, set[str]] = {"cli": {"store"}, "engine": set(), "store": set()}
    tree = house(
        tmp_path,
        engine="",
        store="",
        cli__top="import hwdyno.engine",
        cli__inside="def run():\n    from hwdyno import engine\n    return engine",
        cli__dynamic="import importlib\ne = importlib.import_module('hwdyno.engine')",
        cli__computed="import importlib\ne = importlib.import_module(f'hwdyno.{\"engine\"}')",
        cli__program="import sys\ncommand = [sys.executable, '-m', 'hwdyno.engine']",
        cli__fine="import hwdyno.store\nwords = 'hwdyno.engine stands in a sentence'",
    )
    found = modules.forbidden_imports(tree, allowed)
    spoiled = ("computed", "dynamic", "inside", "program", "top")
    assert sorted(found) == [f"hwdyno.cli.{name} must not import engine" for name in spoiled]
    assert (
        modules.forbidden_imports(house(tmp_path, gpu=""), allowed)[-1]
        == "hwdyno.gpu: gpu is a new room: say what it may import"
    )


def test_permission_that_nobody_uses_is_found(tmp_path: Path) -> None:
    tree = house(tmp_path, words="", units="from hwdyno.words import Value", store="import hwdyno.words")
    assert modules.unused_permissions(tree, {"words": set(), "units": {"words"}, "store": {"words"}}) == []
    wide = {"words": set(), "units": {"words"}, "store": {"words", "units"}, "gpu": set()}
    assert modules.unused_permissions(tree, wide) == ["gpu is no room", "store does not import units"]


def test_a_circle_of_files_is_found(tmp_path: Path) -> None:
    tree = house(
        tmp_path,
        a="from hwdyno.b import x",
        b="import hwdyno.c",
        c="def f():\n    from hwdyno import a\n    return a",
        d="import hwdyno.a",
        peers__="import importlib\np = importlib.import_module(f'hwdyno.peers.{name}')\nNAMES = ('fio',)",
        peers__fio="from hwdyno.peers import Peer",
    )
    needs = {name: static_imports(module, tree) for name, module in tree.modules.items()}
    assert modules.circles(needs) == [["hwdyno.a", "hwdyno.b", "hwdyno.c"]]


def test_a_dead_module_is_found_though_its_name_stands_everywhere(tmp_path: Path) -> None:
    tree = house(
        tmp_path,
        cli__main=f"{TABLE}import hwdyno.plan",
        cli__run="from hwdyno import store  # drain is no import",
        cli__drain="import hwdyno.only_by_the_dead",
        only_by_the_dead="",
        store="drain = 'drain'",
        plan=WALK,
        script="",
        simulated="",
        peers__="",
    )
    found = modules.dead_modules(tree, ["hwdyno.cli.main"], NOTHING, {})
    dead = ("cli.drain", "only_by_the_dead", "peers", "script", "simulated")
    assert found == [f"hwdyno.{name}: no entry point imports it" for name in dead]
    outside = house(tmp_path / "tests", test_a="import hwdyno.simulated, hwdyno.script")
    found = modules.dead_modules(tree, ["hwdyno.cli.main"], outside, {"hwdyno.simulated": "a reason"})
    assert "hwdyno.simulated: no entry point imports it" not in found
    assert "hwdyno.script: no entry point imports it" in found  # a test alone is no reason
    found = modules.dead_modules(tree, ["hwdyno.cli.main"], outside, {"hwdyno.store": "", "hwdyno.cli.drain": ""})
    assert {"hwdyno.store: it is not for tests alone", "hwdyno.cli.drain: no test or benchmark imports it"} <= {*found}


def test_walked_folder_and_started_script_live(tmp_path: Path) -> None:
    tree = house(
        tmp_path,
        experiments__=WALK,
        experiments__memory="SCRIPT = Path(__file__).parent / 'loading.py'",
        experiments__storage="",
    )
    assert find_imports(tree.modules["hwdyno.experiments"], tree) == {
        "hwdyno.experiments.memory",
        "hwdyno.experiments.storage",
    }
    inside = WALK.replace("__name__", "__package__")
    tree = house(tmp_path / "c", experiments__="", experiments__catalogue=inside, experiments__memory="")
    assert find_imports(tree.modules["hwdyno.experiments.catalogue"], tree) == {"hwdyno.experiments.memory"}
    tree = house(tmp_path / "b", peers__loaders="SCRIPT = Path(__file__).parent / 'loading.py'", peers__loading="")
    assert find_imports(tree.modules["hwdyno.peers.loaders"], tree) == {"hwdyno.peers.loading"}


def test_code_of_a_package_is_found(tmp_path: Path) -> None:
    lazy = "def __getattr__(name):\n    return find(name)\n\n\ndef __dir__():\n    return __all__\n"
    tree = house(
        tmp_path,
        clean__=f'"""Formats."""\nimport re\nfrom hwdyno.a import b\n__all__ = ["b"]\n"""Names."""\n{lazy}',
        constant__="__version__ = '1'\nLIMIT = 4",
        function__="def find():\n    pass",
        branch__="if True:\n    import re",
        module="LIMIT = 4",
    )
    code = "is code: it belongs into a module with a name"
    assert sorted(modules.packages_with_code(tree)) == [
        f"hwdyno.branch: line 1 {code}",
        f"hwdyno.constant: line 2 {code}",
        f"hwdyno.function: line 1 {code}",
    ]


def test_dead_data_is_found(tmp_path: Path) -> None:
    written(
        tmp_path, {"page.html.j2": "{% include 'page.css' %}", "page.css": "", "page.js": "", "data/sets/a.toml": ""}
    )
    tree = house(tmp_path, page="template = 'page.html.j2'", sets="for path in (root / 'sets').glob('*.toml'): pass")
    assert modules.dead_data(tree, {".j2", ".css", ".js", ".toml"}) == ["page.js: nothing reads it"]


def test_only_dead_definitions_are_found(tmp_path: Path) -> None:
    tree = house(
        tmp_path,
        cli__main="""
            from hwdyno import units
            from hwdyno.store import kept, passed_on
            import importlib
            COMMANDS = ("run",)
            module = importlib.import_module(f"hwdyno.cli.{name}")
            module.run()
            units.used(kept, passed_on)
            """,
        cli__run="def run():\n    return helper()\n\ndef helper():\n    pass\n\ndef lonely():\n    return helper()",
        units="""
            def used():
                return LIMIT
            LIMIT = 1
            UNUSED = used()
            def recursive():
                return recursive()
            class Alone:
                pass
            def first():
                return second()
            def second():
                return first()
            def for_the_docs():
                return _their_helper()
            def _their_helper():
                pass
            __all__ = ["Alone"]
            """,
        store__="from hwdyno.store.deep import kept, passed_on, published",
        store__deep="def kept(): pass\ndef passed_on(): pass\ndef published(): pass\n",
    )
    found = definitions.dead_definitions(tree, tree.modules.keys(), {"hwdyno.units.for_the_docs": "a reason"})
    dead = [
        *("cli.main.COMMANDS", "cli.run.lonely", "store.deep.published", "units.Alone", "units.UNUSED"),
        *("units.first", "units.recursive", "units.second"),
    ]
    assert found == [f"hwdyno.{name}: nothing uses it" for name in dead]
    excuses = {"hwdyno.units.used": "", "hwdyno.units.gone": ""}
    needless = [line for line in definitions.dead_definitions(tree, tree.modules.keys(), excuses) if "excuse" in line]
    assert needless == [f"{name}: it is used, or gone: drop its excuse" for name in sorted(excuses)[::-1]][::-1]


def test_a_dead_method_is_found(tmp_path: Path) -> None:
    tree = house(
        tmp_path,
        statistics="""
            class Histogram:
                def __len__(self): return 0
                def mean(self): return self.total()
                def total(self): return getattr(self, f"_read_{kind}")
                def _read_text(self): pass
                def forgotten(self): pass
                def excused(self): pass
            class Parser(argparse.ArgumentParser):
                def error(self): pass
            print(Histogram().mean())
            """,
    )
    name = "hwdyno.statistics.Histogram"
    found = definitions.dead_methods(tree, tree.modules.keys(), {f"{name}.excused": "", f"{name}.mean": ""})
    assert found == [f"{name}.forgotten: nothing reads it", f"{name}.mean: it is used, or gone: drop its excuse"]


def test_a_long_function_is_found_unless_it_says_why(tmp_path: Path) -> None:
    body = "    x = 1\n" * 59
    plain, excused = (
        f"def longer():\n{body}    x = 2\n",
        f"# long because it is one table\ndef table():\n{body}    x = 2\n",
    )
    tree = house(tmp_path, runner=f"def fits():\n{body}\n{plain}\n{excused}")
    assert definitions.long_functions(tree, {}) == ["hwdyno.runner.longer: 61 lines and no reason"]
    assert definitions.long_functions(tree, {"hwdyno.runner.longer": "a reason"}) == []
    gone = ["hwdyno.runner.fits: it is short, or gone: drop its excuse"]
    assert definitions.long_functions(tree, {"hwdyno.runner.longer": "", "hwdyno.runner.fits": ""}) == gone


def test_a_long_function_in_rust_is_found_unless_it_says_why(tmp_path: Path) -> None:
    body = "    let brace = '{'; // }\n" * 58
    long = f"pub(crate) fn longer() {{\n{body}\n}}\n"
    sources = crate(
        tmp_path, lib=f"fn fits() {{\n{body}}}\n{long}// long because it is one table\nfn table() {{\n{body}\n\n}}\n"
    )
    assert rust.long_functions(sources, {}) == ["crate::longer: 61 lines and no reason"]
    assert rust.long_functions(sources, {"crate::longer": "a reason"}) == []


def test_a_long_method_is_found_beside_a_short_namesake(tmp_path: Path) -> None:
    lines = {"python": "        x = 1\n" * 60, "rust": "        let x = 1;\n" * 60}
    methods = f"class A:\n    def go(self):\n{lines['python']}\n\nclass B:\n    def go(self): ...\n"
    assert definitions.long_functions(house(tmp_path, a=methods), {}) == ["hwdyno.a.go: 61 lines and no reason"]
    sources = crate(
        tmp_path, lib=f"impl A {{\n    fn go() {{\n{lines['rust']}    }}\n}}\nimpl B {{\n    fn go() {{}}\n}}\n"
    )
    assert rust.long_functions(sources, {}) == ["crate::go: 62 lines and no reason"]


def test_undocumented_or_long_module_is_found(tmp_path: Path) -> None:
    tree = house(tmp_path, a='"""Reads a file."""', b='"""Reads a file"""', c="x = 1\n" * 451)
    assert [line.partition(":")[0] for line in modules.unopened(tree)] == ["hwdyno", "hwdyno.b", "hwdyno.c"]
    paths = [module.path for module in tree.modules.values()]
    assert modules.too_long_files(paths, tmp_path, {}) == ["c.py: 451 lines; does it hold one thing?"]
    assert modules.too_long_files(paths, tmp_path, {"c.py": "a table"}) == []
    needless = modules.too_long_files(paths, tmp_path, {"a.py": "a table", "c.py": "a table"})
    assert needless == ["a.py: it is short, or gone: drop its excuse"]


def test_a_file_of_rust_tests_is_no_product(tmp_path: Path) -> None:
    files = {"lib": "mod a;", "a": "mod b;\n#[cfg(test)]\nmod tests;", "a__b": "", "a__tests": "use super::b;"}
    assert set(crate(tmp_path, **files)) == {"crate", "crate::a", "crate::a::b"}


def test_circle_of_rust_files_is_found(tmp_path: Path) -> None:
    sources = crate(
        tmp_path,
        lib="mod a; mod b; mod c; mod d; mod room; mod alone; pub use a::A;",
        a="use crate::{b::B, d};\npub struct A;",
        b="pub fn f() { super::c::g(); } // crate::alone::h()",
        c='use crate::A; use crate::a::A;\nconst TEXT: &str = "crate::alone::h";',
        d="#[cfg(test)]\nmod tests { use crate::a::A; }\n#[cfg(test)]\nuse crate::a::A;",
        room='mod inner; #[path = "loops.rs"] mod simd; fn f() { inner::g(); simd::run(); }',
        room__inner="use super::super::alone::h;",
        loops="use crate::room::Room;",
        alone="use super::a::A;",
    )
    needs = {name: rust.find_uses(source, sources) for name, source in sources.items()}
    circles = [["crate::a", "crate::b", "crate::c"], ["crate::loops", "crate::room"]]
    assert modules.circles(needs) == circles
    assert needs["crate::d"] == set()
    assert needs["crate::room"] == {"crate::room::inner", "crate::loops"}


def test_a_dead_public_item_is_found(tmp_path: Path) -> None:
    sources = crate(
        tmp_path,
        lib="mod a; pub fn run() { a::used(); }",
        a="pub fn used() {} // UNUSED\npub(crate) const UNUSED: u8 = 1;\n#[cfg(test)]\nmod t { use super::UNUSED; }",
    )
    program = {"bin::main": rust.Source("bin::main", tmp_path / "main.rs", "fn main() { run(); }")}
    assert rust.dead_public([sources, program]) == ["crate::a::UNUSED"]


def test_misplaced_unsafe_is_found(tmp_path: Path) -> None:
    sources = crate(
        tmp_path,
        lib="// unsafe",
        sys="unsafe fn f() {}",
        sys__mapping="unsafe impl Send for M {}",
        job='const S: &str = "unsafe";',
    )
    assert rust.unsafe_outside(sources, {"crate::sys": "calls"}) == []
    sources = crate(tmp_path, job="fn f() { unsafe { g() } }", system="unsafe fn f() {}")
    says = "unsafe stands in sys and in the SIMD loops alone"
    assert rust.unsafe_outside(sources, {"crate::sys": "calls"}) == [f"crate::job: {says}", f"crate::system: {says}"]
    assert rust.unsafe_outside(sources, {f"crate::{name}": "" for name in ("sys", "job", "system", "lib")}) == [
        "crate::lib: it holds nothing unsafe"
    ]


def test_vague_name_is_found(tmp_path: Path) -> None:
    tree = house(
        tmp_path,
        fio_asked="""
            class ToldOf:
                held_against: int
            def beside(otherwise: int) -> None:
                said, bold, threshold = otherwise, asked_for(1), {"told": 1}
                for one in owner: self.own_rate = one
            """,
    )
    module = tree.modules["hwdyno.fio_asked"]
    found = names.vague(names.python_names(module))
    assert found == ["ToldOf", "beside", "fio_asked", "held_against", "otherwise", "own_rate", "said"]
    source = crate(
        tmp_path,
        told="struct Held { own: u8, bold: u8 }\nfn f(otherwise: u8) { let mut asked = 1; let (a, said) = g(holder); }",
    )["crate::told"]
    assert names.vague(names.rust_names(source)) == ["Held", "asked", "otherwise", "own", "said", "told"]


@pytest.mark.parametrize(
    ("line", "name"),
    [
        ("open(p, 'w')", "open"),
        ("open(p, mode='r+b')", "open"),
        ("open(p, mode)", "open"),
        ("p.open('xb')", "open"),
        ("gzip.open(p, 'wt')", "open"),
        ("os.open(p, os.O_WRONLY | os.O_CREAT)", "os.open"),
        ("p.write_text('x')", "write_text"),
        ("stack.callback(p.unlink)", "unlink"),
        ("p.replace(q)", "replace"),
        ("os.replace(p, q)", "os.replace"),
        ("rm.rmtree(p)", "shutil.rmtree"),
        ("remove(p)", "os.remove"),
        ("tempfile.mkdtemp()", "tempfile.mkdtemp"),
        ("p.parent.mkdir(parents=True)", "mkdir"),
    ],
)
def test_file_around_safe_files_is_found(line: str, name: str, tmp_path: Path) -> None:
    imports = "import gzip, os, tempfile, shutil as rm\nfrom os import remove\n"
    module = house(tmp_path, a=imports + line).modules["hwdyno.a"]
    assert list(files.python_calls(module)) == [(3, name)]
    found = [("hwdyno.a", 3, name)]
    says = f"hwdyno.a: line 3: {name} goes around safe_files (safe_files.py, safe_files.rs)"
    assert files.outside_of_safe_files(found, ("hwdyno.door",), {}) == [says]
    assert files.outside_of_safe_files(found, ("hwdyno.a",), {}) == []
    assert files.outside_of_safe_files(found, (), {("hwdyno.a", name): "a reason"}) == []
    unused = files.outside_of_safe_files([], (), {("hwdyno.a", name): "a reason"})
    assert unused == [f"hwdyno.a: {name} is excused, and is not there"]


def test_what_only_reads_or_changes_a_text_is_no_file_that_is_made(tmp_path: Path) -> None:
    text = """
        import os
        from dataclasses import replace
        open(p); open(p, "rb"); p.open("rb"); p.open(); image.open(p); os.open(p, os.O_RDONLY)
        "a".replace("b", "c"); replace(one, two=3); when.replace(tzinfo=None); names.remove(x); os.write(1, b"")
        os.fdopen(descriptor, "r+b"); door.create(p); folder.remove(name, identity); folder.open(name, os.O_RDWR)
        """
    module = house(tmp_path, a=text).modules["hwdyno.a"]
    assert list(files.python_calls(module)) == []


def test_a_rust_file_around_safe_files_is_found(tmp_path: Path) -> None:
    lines = {
        "std::fs::write(path, text)?;": "write",
        "let _ = fs::remove_dir_all(path);": "remove_dir_all",
        "fs::rename(a, b)?;": "rename",
        "File::create(path)?;": "create",
        "OpenOptions::new()\n.read(true)\n.write(true).open(path)?;": "write",
        "File::options().append(true).open(path)?;": "append",
        "rustix::fs::unlinkat(at, name, flags)?;": "unlinkat",
        "openat(at, name, OFlags::CREATE, mode)?;": "CREATE",
        "unsafe { libc::unlink(path) };": "unlink",
    }
    for line, name in lines.items():
        source = crate(tmp_path, a=f"fn f() {{\n{line}\n}}")["crate::a"]
        assert list(files.rust_calls(source)) == [(2, name)], line
        tested = crate(tmp_path, a=f"#[cfg(test)]\nmod tests {{ fn f() {{ {line} }} }}\n// {line}")["crate::a"]
        assert list(files.rust_calls(tested)) == []
    reads = "fn f() { File::open(p)?; OpenOptions::new().read(true).open(p)?; g(); file.write(x); fs::read(p)?; }"
    assert list(files.rust_calls(crate(tmp_path, a=reads)["crate::a"])) == []
    found = [("crate::safe_files::part", 1, "write"), ("crate::safe_filesx", 1, "write")]
    assert len(files.outside_of_safe_files(found, ("crate::safe_files",), {})) == 1


def test_a_class_that_two_modules_name_is_found(tmp_path: Path) -> None:
    tree = house(
        tmp_path,
        a="class Rule: pass\nclass _Part: pass\nPLACES = 1",
        b="def f():\n    class Rule: pass\nPlace = tuple[int, int]",
        c="class Place: pass\nclass _Part: pass\nOther = int",
        d="from hwdyno.a import Rule\nOther = str",
    )
    assert duplicates.repeated_classes(tree, {"_Part": "a reason", "Other": "a reason"}) == [
        "Place is taken: hwdyno.b, hwdyno.c",
        "Rule is taken: hwdyno.a, hwdyno.b",
        "Other is excused, and is not taken",
    ]


def test_a_module_called_as_one_of_pythons_is_found(tmp_path: Path) -> None:
    tree = house(tmp_path, a__statistics="", a__csv="", queue__="", queue__rates="", a__statistics_of_rates="")
    found = duplicates.standard_names(tree, {"hwdyno.a.csv": "a reason", "hwdyno.gone.json": "a reason"})
    assert found == [
        "hwdyno.a.statistics is taken: hwdyno.a.statistics",
        "hwdyno.queue is taken: hwdyno.queue",
        "hwdyno.gone.json is excused, and is not taken",
    ]


def test_a_file_name_of_two_folders_is_found(tmp_path: Path) -> None:
    paths = [f"{folder}__{name}" for folder in "abc" for name in ("memory", "site")]
    paths += ["a__fio", "b__fio", "a__ping", "b__ping", "c__ping", "a__", "b__", "a__one"]
    tree = house(tmp_path, **dict.fromkeys(paths, ""))
    tools = ("hwdyno.a", "hwdyno.b")
    found = duplicates.repeated_files(tree, {"memory"}, [tools], {"site": "a reason", "one": "a reason"})
    assert found == ["ping is taken: hwdyno.a, hwdyno.b, hwdyno.c", "one is excused, and is not taken"]
    assert duplicates.repeated_files(tree, {"memory", "ping", "site"}, [], {}) == ["fio is taken: hwdyno.a, hwdyno.b"]


@pytest.mark.parametrize("name", ["measured", "_made", "limits_of", "_span_of"])
def test_a_function_without_verb_or_noun_is_found(name: str, tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text(f"def {name}(): pass\ndef read_limits(): pass\ndef need(): pass\n")
    assert names.unnamed_results(read_tree(tmp_path, "house").modules["house.a"]) == [name]
