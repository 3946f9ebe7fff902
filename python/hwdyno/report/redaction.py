"""Leaves the names out of a Run that others will see: hosts, servers, serial numbers, users, hardware addresses.

The stored document keeps them; a copy that leaves the machine has them only where they were requested.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import fields, is_dataclass, replace
from typing import Any, TypeVar
from urllib.parse import urlsplit

from hwdyno.model.axes import is_loopback
from hwdyno.model.machine import node_name
from hwdyno.model.words import Run

T = TypeVar("T")

LEFT_OUT = "left out; --with-names shows it"
_UNIQUE = re.compile(
    r"\b[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}\b"  # UUIDs of filesystems, partitions and volumes
    r"|(?<![0-9a-fA-F:])(?:[0-9a-fA-F]{2}:){5}[0-9a-fA-F]{2}(?![0-9a-fA-F:])"  # MAC addresses
    r"|\b(?:eui\.|wwn-|naa\.)[0-9a-zA-Z.]{8,}"  # world-wide names of disks
)
_HOME = re.compile(r"/(?:home|Users|var/home)/([^/\s'\"`:,;]+)")
_EVERYDAY = {
    *("localhost", "none", "linux", "server", "client", "host", "node", "test", "user", "root", "data", "home", "disk"),
    *("storage", "memory", "compute", "network", "training", "inference", "together", "hwdyno", "random", "read"),
    *("write", "direct"),
}
"""Words that a sentence has for other reasons: a host of such a name is left out where it is a host alone."""
_SHORTEST, _SHORTEST_SERIAL = 3, 6
_ADDRESSES = re.compile(r"(?:.*\.)?(?:\w*serial\w*|\w*uuid\w*|mac|mac_address|wwn|wwid|eui|hostname)", re.IGNORECASE)
"""Keys of a survey whose values name one thing in the world."""
_PACKED = {"histogram", "schema"}
"""Fields that hold no text that a person wrote."""


def without_names(run: Run) -> Run:
    """The Run with ``host-1``, ``server-1`` … in place of names, home folders as ``~``, and without serial numbers.

    A name is replaced everywhere, also in findings and commands, so a command goes on to work where its place is below
    a home folder.
    """
    job = {key: value for key, value in run.job.items() if key not in {"name", "nodes"}}
    return _without_serials(_map_texts(replace(run, job=job), _hiding([run])))


def hide_names(runs: Sequence[Run], value: T) -> T:
    """What was made of several Runs, such as their comparison, without their names; each has one word in all of it."""
    return _map_texts(value, _hiding(runs))


def _hiding(runs: Sequence[Run]) -> Callable[[str], str]:
    """What a text becomes without the names of the Runs."""
    given, serials = (
        _stand_ins(runs),
        _distinct(disk.serial for run in runs for machine in run.machines for disk in machine.storage.disks),
    )
    words = [re.escape(name) for name in sorted(given, key=len, reverse=True) if _is_word(name)]
    # A serial number is also a part of longer names: /dev/disk/by-id/nvme-MODEL_SERIAL.
    parts = [re.escape(serial) for serial in serials if len(serial) >= _SHORTEST_SERIAL]
    patterns = [*parts, *([rf"(?<![\w.-])(?:{'|'.join(words)})(?![\w-])"] if words else [])]
    names = re.compile("|".join(patterns)) if patterns else None

    def hide_text(text: str) -> str:
        if text in given:
            return given[text]
        text = _HOME.sub("~", _UNIQUE.sub("…", text))
        return text if names is None else names.sub(lambda found: given.get(found[0], "…"), text)

    return hide_text


def name_machines(runs: Sequence[Run], *, with_names: bool) -> list[str]:
    """A word for each Run's machine: its hosts' names, or ``machine-1``, ``machine-2`` … in the order of the Runs."""
    known = ["+".join(machine.hostname or "unnamed" for machine in run.machines) or "unknown" for run in runs]
    if with_names:
        return known
    numbers = {name: f"machine-{at}" for at, name in enumerate(dict.fromkeys(known), 1)}
    return [numbers[name] for name in known]


def _stand_ins(runs: Sequence[Run]) -> dict[str, str]:
    """The substitute of each name."""
    hosts = [machine.hostname for run in runs for machine in run.machines]
    hosts += [
        share.host for run in runs for result in run.experiments for point in result.points for share in point.hosts
    ]
    servers = _distinct(server for run in runs for server in _servers(run))
    given = {name: f"server-{at}" for at, name in enumerate(servers, 1)}
    known = _distinct(hosts)
    for at, node in enumerate(dict.fromkeys(map(node_name, known)), 1):
        given[node] = f"host-{at}"
        given.setdefault(node.partition(".")[0], f"host-{at}")
    for name in known:
        node = node_name(name)
        given[name] = given[node] + name.removeprefix(node)
    places = [
        (machine.storage.path, machine.storage.mount_point, machine.storage.source)
        for run in runs
        for machine in run.machines
    ]
    texts = [text for some in (*places, [run.command for run in runs]) for text in some if text]
    users = _distinct(user for text in texts for user in _HOME.findall(text))
    return {**{name: f"user-{at}" for at, name in enumerate(users, 1)}, **given}


def _servers(run: Run) -> Iterator[str | None]:
    for machine in run.machines:
        address, mark, _ = (machine.storage.source or "").partition(":/")
        yield address if mark else None
    for result in run.experiments:
        for point in result.points:
            whole = {**result.fixed, **point.parameters}
            # Of a network's results that were read, the path is a host; of all others it is a folder or a bucket.
            keys = ("server", "host", *(("path",) if result.resource == "network" else ()))
            # An object store may have several endpoints; a model server's is a word.
            urls = [text.strip() for text in str(whole.get("endpoint") or "").split(",") if "://" in text]
            for place in map(_host, [*(str(whole.get(key) or "") for key in keys), *urls]):
                yield None if not place or is_loopback(place) else place


def _host(place: str) -> str:
    """The host of a URL; anything else as it is."""
    with contextlib.suppress(ValueError):
        return urlsplit(place).hostname or place if "://" in place else place
    return place


def _distinct(names: Iterable[str | None]) -> list[str]:
    return list(dict.fromkeys(name for name in names if name))


def _is_word(name: str) -> bool:
    return len(name) >= _SHORTEST and name.lower() not in _EVERYDAY


def _map_texts(value: T, hide: Callable[[str], str]) -> T:
    """The same value with every text in it passed through ``hide``; keys of maps too."""
    made: Any = value
    if isinstance(value, str):
        made = hide(value)
    elif is_dataclass(value) and not isinstance(value, type):
        before = {field.name: getattr(value, field.name) for field in fields(value) if field.name not in _PACKED}
        changed = {name: after for name, old in before.items() if (after := _map_texts(old, hide)) != old}
        made = replace(value, **changed) if changed else value
    elif isinstance(value, Mapping):
        made = {_map_texts(key, hide): _map_texts(inner, hide) for key, inner in value.items()}
    elif isinstance(value, (tuple, list)):
        made = type(value)(_map_texts(inner, hide) for inner in value)
    return made  # type: ignore[no-any-return]


def _without_serials(run: Run) -> Run:
    machines = []
    for machine in run.machines:
        storage, unknown = machine.storage, dict(machine.unknown)
        for at, disk in enumerate(storage.disks):
            if disk.serial is not None:
                unknown[f"storage.disks.{at}.serial"] = LEFT_OUT
        disks = tuple(replace(disk, serial=None) for disk in storage.disks)
        kept = _without_addresses(machine.other)
        machines.append(replace(machine, storage=replace(storage, disks=disks), unknown=unknown, other=kept))
    return replace(run, machines=tuple(machines))


def _without_addresses(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {
            key: LEFT_OUT if inner and _ADDRESSES.fullmatch(str(key)) else _without_addresses(inner)
            for key, inner in value.items()
        }
    return [_without_addresses(inner) for inner in value] if isinstance(value, list) else value
