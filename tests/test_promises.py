"""The promises of ``docs/dev/promises.md``: each names tests that exist."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest
from hwdyno.measure import engine
from tidy import rust
from tidy.sources import read_tree

ROOT = Path(__file__).parents[1]
CRATE = ROOT / "crates" / "engine"
PAGE = ROOT / "docs" / "dev" / "promises.md"
TEST = re.compile(r"`([\w/]+\.(?:py|rs))(?:::(\w+))?`")
RUST_TEST = re.compile(r"#\[test\]\s+(?:#\[[^\n]*\]\s+)*fn \$?(\w+)")


def promises() -> dict[str, str]:
    """The text of each promise by its heading."""
    listed = PAGE.read_text().partition("## What is promised")[2].partition("\n## ")[0]
    parts = re.split(r"^### (.+)$", listed, flags=re.MULTILINE)
    return dict(zip(parts[1::2], parts[2::2], strict=True))


def named_tests(text: str) -> list[tuple[str, str]]:
    """The files that a promise names, each with a test's name or an empty one for all its tests."""
    return TEST.findall(text.partition("\n- Tests:")[2])


PROMISES = promises()


def names_in(file: str) -> set[str | None]:
    """The tests in a file, and None if there are any: of ``tests`` in Python, of the engine's crate in Rust."""
    tests = ROOT / "tests"
    path = next(tests.rglob(file), tests / file) if file.endswith(".py") else CRATE / file
    assert path.is_file(), f"docs/promises.md names {file}, which is not there"
    text = path.read_text()
    if file.endswith(".rs"):
        names = set(RUST_TEST.findall(text))
    else:
        functions = {node.name for node in ast.parse(text).body if isinstance(node, ast.FunctionDef)}
        names = {name for name in functions if name.startswith("test_")}
    return names | {None} if names else set()


def test_there_are_promises() -> None:
    assert len(PROMISES) >= 15


@pytest.mark.parametrize("promise", PROMISES)
def test_promises_name_existing_tests(promise: str) -> None:
    named = named_tests(PROMISES[promise])
    assert named
    missing = [f"{file}::{name}" for file, name in named if (name or None) not in names_in(file)]
    assert not missing, f"docs/promises.md, {promise}: no such test: {', '.join(missing)}"


# --- what no other test checks


NETWORK = {
    *("socket", "ssl", "http", "urllib", "asyncio", "socketserver", "ftplib", "smtplib", "xmlrpc", "webbrowser"),
    *("requests", "urllib3", "httpx", "aiohttp"),
}
MAY_CONNECT = {
    "hwdyno.measure.hosts.ranks": "connects the ranks of one start by mpirun, Slurm or Kubernetes, by its secret",
    "hwdyno.measure.hosts.lines": "reads lines from a rank's connection, and opens none",
    "hwdyno.measure.hosts.launch": "only names the host",
    "hwdyno.measure.concurrent_runs": "holds the name of a Run that measures, to which nobody can connect",
    "hwdyno.system.loopback": "finds the loopback address and a free port; a connected datagram socket sends nothing",
    "hwdyno.system.store.team": "stores Runs in the PostgreSQL whose address the user gave",
    "hwdyno.system.web_post": "posts what changed to the address that the user named by `hwdyno watch --post`",
    "hwdyno.report.serve.http_server": "answers a browser on the loopback, while `hwdyno serve` runs",
    "hwdyno.report.serve.routes": "only names the status of an answer",
    "hwdyno.report.served": "only encodes the links of a page",
    "hwdyno.measure.workloads.model_stacks": "asks llama.cpp's server in its own process, on the loopback",
    "hwdyno.measure.scenarios.two_nodes": "tries the address that is to be served",
    "hwdyno.report.redaction": "only splits a URL, to leave out its host",
    "hwdyno.measure.serving.server_address": "takes the URL of the server that the user named apart",
    "hwdyno.measure.serving.client": "sends requests to the server that the user named",
    "hwdyno.measure.serving.connection": "has one of its connections",
    "hwdyno.measure.serving.model_list": "asks that server which models it has",
    "hwdyno.measure.serving.llama": "finds a free port of the loopback for llama.cpp's server",
}
"""Python modules that may open a socket, each with its reason."""

SOCKETS = re.compile(r"\b(?:TcpStream|TcpListener|UdpSocket|socket2|AF_INET6?|ToSocketAddrs)\b")
NETWORK_OF_THE_ENGINE = (
    *("crate::network", "crate::object", "crate::fuzzing"),
    *("crate::sys::net", "crate::sys::datagrams", "crate::sys::icmp", "crate::sys::pipe"),
)
# rustls is none: it opens no socket, and encrypts on those of the engine.
CLIENTS = {"reqwest", "hyper", "ureq", "curl", "isahc", "openssl", "native-tls", "tokio", "sentry"}


def test_nothing_but_the_network_opens_a_socket() -> None:
    tree = read_tree(ROOT / "python" / "hwdyno", "hwdyno")
    modules = [module for module in tree.modules.values() if any(word in module.text for word in NETWORK)]
    names = {
        module.name: {alias.name for node in module.nodes(ast.Import) for alias in node.names}
        | {node.module or "" for node in module.nodes(ast.ImportFrom)}
        for module in modules
    }
    tops = {name: {module_name.partition(".")[0] for module_name in found} for name, found in names.items()}
    assert {name for name, found in tops.items() if NETWORK & found} == set(MAY_CONNECT)
    engine_files = rust.read_crate(CRATE / "src")
    connecting = {
        name for name, source in engine_files.items() if SOCKETS.search(source.text) and SOCKETS.search(source.code)
    }
    assert connecting
    assert {name for name in connecting if not name.startswith(NETWORK_OF_THE_ENGINE)} == set()


def test_no_library_of_the_engine_speaks_to_the_network() -> None:
    locked = set(re.findall(r'^name = "(.+)"$', (ROOT / "Cargo.lock").read_text(), flags=re.MULTILINE))
    assert "socket2" in locked
    assert not locked & CLIENTS


def test_a_server_is_on_the_loopback_unless_the_user_says_otherwise() -> None:
    defaults = {axis.name: axis.default for axis in engine.kernels()["network_server"].axes}
    assert defaults["bind"] == "127.0.0.1"
