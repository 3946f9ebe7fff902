"""A place in an object store: how it is reached, what is in it, and the run's folder there with its removal."""

from __future__ import annotations

import contextlib
import os
import re
import secrets
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hwdyno.measure.hosts.measured_site import make_site
from hwdyno.measure.scenarios.preparation import Preparation, Says, make_error
from hwdyno.measure.scenarios.request import Option, Request
from hwdyno.model.axes import CLIENTS
from hwdyno.model.kernels import OBJECT_LISTING, OBJECT_REMOVAL
from hwdyno.model.units import plural
from hwdyno.model.words import Parameters, UserError
from hwdyno.system.urls import in_object_store, reach_below

if TYPE_CHECKING:
    from hwdyno.measure.hosts import Host

ENDPOINTS = ("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL")
"""Environment variables with the endpoint, as every S3 tool takes them."""
ENDPOINT = Option("--endpoint", "the store's URLs, separated by commas (default: AWS_ENDPOINT_URL_S3)", "URL")
CA_FILE = Option("--ca-file", "the authorities that may sign an https:// store's certificate (PEM)", "FILE")
STORE_ENDPOINT = replace(ENDPOINT, flag="--store-endpoint")
"""The same for ``hwdyno inference``, whose ``--endpoint`` is a model server's."""

BRIEF_S = 2.0
"""Timeout of a removal at a store that refused the first request."""


def find_endpoint(options: Mapping[str, Any]) -> str:
    """The store's URLs by the options, or by the environment; empty where neither names them."""
    given = options.get(STORE_ENDPOINT.name, options.get(ENDPOINT.name))
    return str(given or next((os.environ[name] for name in ENDPOINTS if os.environ.get(name)), ""))


def need_endpoint(options: Mapping[str, Any]) -> str:
    """The store's URLs; raises ``UserError`` with the command's own option where nothing names them, or no URL does."""
    option = STORE_ENDPOINT if STORE_ENDPOINT.name in options else ENDPOINT
    endpoint = find_endpoint(options)
    if not endpoint:
        raise UserError(f"name the object store: {option.flag} URL, such as http://127.0.0.1:9000, or {ENDPOINTS[0]}")
    for url in filter(None, map(str.strip, endpoint.split(","))):
        # The engine checks the rest; it is reached only when something is measured or removed there.
        if not url.startswith(("http://", "https://")):
            raise UserError(f"{option.flag} {url}: use a URL with a host and a port, such as http://127.0.0.1:9000")
    return endpoint


def reach(request: Request, object_: Path | None = None) -> Parameters:
    """The parameters by which a kernel reaches the request's places in an object store, or the user's object there.

    None where neither is in one.
    """
    if not any(in_object_store(path) for path in (*(path for _, path in request.places), object_ or Path())):
        return {}
    ca_file = request.options.get("ca_file")
    return {"endpoint": need_endpoint(request.options), **({"ca_file": str(ca_file)} if ca_file else {})}


def count_endings(host: Host, path: Path, reached: Parameters) -> dict[str, int]:
    """How many of the first 1,000 objects of a place have names with each ending; raises ``UserError``."""
    try:
        found = host.run(OBJECT_LISTING, reach_below(path, reached))["details"]["endings"]
    except OSError as error:
        raise make_error(error) from None
    return {str(ending): int(count) for ending, count in found.items()}


def name_folder(path: Path) -> Path:
    """A folder of one run at a place, by a name that no other run has."""
    return path / f"hwdyno-{secrets.token_hex(8)}"


def show_folder(text: str) -> str:
    """A text with the run's folder as a dry run shows it."""
    return re.sub(r"hwdyno-[0-9a-f]{16}", "hwdyno-…", text)


@dataclass(frozen=True, kw_only=True, eq=False)
class ObjectFolder(Preparation):
    """A folder of one run in a bucket, which kernels write to; all of it is removed at the end."""

    reached: Mapping[str, Any]
    """How an object store's kernels reach it, prefix included."""

    @contextlib.contextmanager
    def make_available(self, host: Host, says: Says) -> Iterator[bool]:
        """What is written, and nothing after."""
        refused = ""
        try:
            try:
                self.fill(host, says)
            except (OSError, ValueError) as error:
                refused = str(error)
                raise
            yield True
        finally:
            remove_folder(host, self.reached, says, refused)

    def fill(self, host: Host, says: Says) -> None:
        """Write what points read: nothing here, but a store that cannot be used is refused before any point."""
        try:
            host.run(OBJECT_LISTING, dict(self.reached))
        except OSError as error:
            raise make_error(error) from None


def make_object_folder(
    contents: str, place: str, max_bytes: int, reached: Parameters, *, by_points: bool = False
) -> ObjectFolder:
    """The folder at a place, to which points write at most that many bytes."""
    folder = Path(place)
    return ObjectFolder(
        description=f"{contents} in {show_folder(place)}, removed afterwards",
        where=folder,
        bytes=max_bytes,
        is_limit=not by_points,
        by_points=by_points,
        reached=reach_below(folder, reached),
    )


def report_left(details: Mapping[str, Any], says: Says) -> None:
    """Say what of other runs was found where a folder was marked."""
    if removed := int(details.get("left_objects_removed") or 0):
        says(f"removed {plural(removed, 'object')} of runs that were killed")
    if others := int(details.get("other_runs_found") or 0):
        says(f"objects of {plural(others, 'other run')} stay: it may still measure, or ran on another host")


def remove_folder(host: Host, reached: Mapping[str, Any], says: Says, refused: str = "") -> None:
    """Remove the run's objects; those that stay are the next run's to remove.

    A store that refuses the removal as it refused the first request (``refused``) has none, nor has one without
    the mark, which is written first and removed last.
    """
    if refused:
        reached = {**reached, "timeout": min(BRIEF_S, float(reached.get("timeout", BRIEF_S)))}
    try:
        host.run(OBJECT_REMOVAL, {**reached, **by_first_host(host)})
    except (OSError, ValueError) as error:
        says_why = str(make_error(error) if isinstance(error, OSError) else error)
        if refused and _find_refusal(says_why) in {_find_refusal(refused), "404"}:
            return
        says(f"objects below {reached['prefix']} may remain ({says_why}); the next run there removes them")


def by_first_host(host: Host) -> dict[str, Any]:
    """What makes a site of several hosts do something once; all of them reach the store."""
    return {CLIENTS.name: 1} if make_site(host).several else {}


def _find_refusal(text: str) -> str:
    """The HTTP status in an error of the engine; the whole text where a store gave none."""
    status = re.search(r": (\d{3}): ", text)
    return status[1] if status else text
