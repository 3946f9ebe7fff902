"""Advisories in a folder, answered to pip-audit on the loopback as OSV's service does: an audit without the network.

The folder is a copy of a database in OSV's format (https://ossf.github.io/osv-schema/), such as PyPA's:
``git clone https://github.com/pypa/advisory-database``.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import yaml
from packaging.utils import canonicalize_name
from packaging.version import InvalidVersion, Version

from release.build import BuildError

Advisory = dict[str, Any]
"""One document of OSV's format."""


def read(folder: Path) -> dict[str, list[Advisory]]:
    """The advisories below a folder by the package's name on PyPI; raises ``BuildError`` where there is none."""
    found: dict[str, list[Advisory]] = {}
    for path in sorted(folder.rglob("*")):
        if path.suffix not in {".json", ".yaml", ".yml"} or ".git" in path.parts:
            continue
        text = path.read_text()
        advisory = json.loads(text) if path.suffix == ".json" else yaml.load(text, Loader=yaml.CBaseLoader)
        if not isinstance(advisory, dict):
            continue
        for name in {package["package"]["name"] for package in _affected(advisory)}:
            found.setdefault(canonicalize_name(name), []).append(advisory)
    if not found:
        raise BuildError(f"{folder} has no advisory in OSV's format")
    return found


def concerns(advisory: Advisory, name: str, version: str) -> bool:
    """Whether a version of a package is affected: listed by itself, or inside a range."""
    return any(
        version in package.get("versions", []) or any(_inside(Version(version), events) for events in _ranges(package))
        for package in _affected(advisory)
        if canonicalize_name(package["package"]["name"]) == canonicalize_name(name)
    )


def _affected(advisory: Advisory) -> list[Advisory]:
    return [
        package for package in advisory.get("affected", []) if package.get("package", {}).get("ecosystem") == "PyPI"
    ]


def _ranges(affected: Advisory) -> Iterator[list[dict[str, str]]]:
    return (span["events"] for span in affected.get("ranges", []) if span.get("type") == "ECOSYSTEM")


def _inside(version: Version, events: list[dict[str, str]]) -> bool:
    """Whether the last event at or before a version leaves it affected (the schema's evaluation)."""
    inside = False
    for kind, at in sorted(((kind, at) for event in events for kind, at in event.items()), key=_when):
        reached = version > _version(at) if kind == "last_affected" else version >= _version(at)
        if reached:
            inside = kind == "introduced"
    return inside


def _when(event: tuple[str, str]) -> Version:
    return _version(event[1])


def _version(text: str) -> Version:
    """A version of an event; what is no version of PyPI's counts as its beginning."""
    try:
        return Version(text)
    except InvalidVersion:
        return Version("0.dev0")


@contextmanager
def served(folder: Path) -> Iterator[str]:
    """OSV's query on a free port of the loopback; yields its URL."""
    known = read(folder)

    class Answers(BaseHTTPRequestHandler):
        """Knows one request: a package and its version."""

        def do_POST(self) -> None:
            """Answer the advisories that concern them."""
            query = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            name, version = query["package"]["name"], query["version"]
            vulns = [
                advisory for advisory in known.get(canonicalize_name(name), []) if concerns(advisory, name, version)
            ]
            body = json.dumps({"vulns": vulns} if vulns else {}, default=str).encode()
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:
            """Say nothing: pip-audit says what it found."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Answers) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        try:
            yield f"http://127.0.0.1:{server.server_port}/v1/query"
        finally:
            server.shutdown()
