"""Every reference tool, found by walking this folder, and which are installed."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable
from typing import TYPE_CHECKING, cast

from hwdyno.measure.peers.peer import Peer
from hwdyno.model.words import UserError
from hwdyno.system.suggestions import hint

if TYPE_CHECKING:
    from hwdyno.measure.hosts import Host
    from hwdyno.measure.plan import Plan


def names() -> tuple[str, ...]:
    """Every reference tool: a file ``peers/<name>.py`` whose ``PEER`` implements the protocol."""
    return tuple(name for name in sorted(_files()) if _peer(name) is not None)


def find(name: str) -> Peer:
    """Look up a peer by name. Raises ``UserError``."""
    peer = _peer(name) if name in _files() else None
    if peer is None:
        raise UserError(f"no reference tool is called '{name}'; {hint(name, names())}")
    return peer


def find_installed(plan: Plan, host: Host, says: Callable[[str], None]) -> list[Peer]:
    """The plan's peers that are installed; missing ones are said. On several hosts, the runner checks each host's."""
    if not plan.peers:
        return []
    from hwdyno.measure.hosts.measured_site import make_site

    here = []
    for peer in map(find, dict.fromkeys(name for planned in plan.experiments for name in planned.experiment.peers)):
        if not make_site(host).several and peer.version() is None:
            remedy = getattr(peer, "install", "install it")
            says(f"{peer.name} is not installed, so it is left out; {remedy} to compare")
        else:
            here.append(peer)
    return here


def _files() -> list[str]:
    folder = importlib.import_module(__package__)
    return [found.name for found in pkgutil.iter_modules(folder.__path__)]


def _peer(name: str) -> Peer | None:
    return cast("Peer | None", vars(importlib.import_module(f"{__package__}.{name}")).get("PEER"))
