"""A kernel's parameters as each host of a site gets them: its data file, its region, its partner and its seed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from hwdyno.measure.hosts.host import HostLostError
from hwdyno.measure.hosts.member import Member, ScratchFile
from hwdyno.measure.hosts.partners import parse_partners
from hwdyno.model.axes import BETWEEN, CLIENTS, SHARED_FILE
from hwdyno.model.words import UserError

_OF_A_SITE = {CLIENTS.name, SHARED_FILE.name, BETWEEN.name}
"""Axes that say what each host gets, and that no kernel knows."""
_PAGE = 4096
SEEDS_APART = 1_000_003
"""Distance between the random seeds of two hosts; a repeat moves a seed by one."""


class HostParameters:
    """The parameters of a site's hosts; ``members`` are those that are left, and all at the start."""

    def __init__(self, members: Mapping[str, Member]) -> None:
        self._members = members
        self._all = tuple(members)
        self._seeing: set[str] = set()
        """The hosts that see the shared file."""

    def of_each(self, parameters: dict[str, Any], scratch: Mapping[str, ScratchFile]) -> dict[str, dict[str, Any]]:
        """A kernel's parameters as each host that takes part gets them: with its own data file and random order.

        ``scratch`` has the data files of the hosts, the first host's first.
        """
        adapted = {name: value for name, value in parameters.items() if name not in _OF_A_SITE}
        if between := str(parameters.get(BETWEEN.name) or ""):
            partners = parse_partners(between, len(self._all))
            return {
                self._all[host]: {**adapted, **self._served_by(self._all[other])}
                for host, other in partners.items()
                if {self._all[host], self._all[other]} <= self._members.keys()
            }
        names = list(self._members)[: parameters.get(CLIENTS.name)]
        by_host = {name: self._adapt_parameters(adapted, name, number, scratch) for number, name in enumerate(names)}
        if parameters.get(SHARED_FILE.name) is not None and "path" in adapted:
            by_host = self._regions(by_host, parameters, scratch, is_shared=bool(parameters[SHARED_FILE.name]))
        return by_host

    def _served_by(self, name: str) -> dict[str, Any]:
        """The parameters by which a host finds another one's server."""
        served = self._members[name].server
        assert served is not None
        return {"server": served[0], "port": served[1]}

    def _regions(
        self,
        by_host: dict[str, dict[str, Any]],
        parameters: Mapping[str, Any],
        scratch: Mapping[str, ScratchFile],
        *,
        is_shared: bool,
    ) -> dict[str, dict[str, Any]]:
        """The region of each host, all of one size: the beginning of its file, or the next part of the first host's.

        Raises ``UserError`` where the blocks do not fit, or where a host does not see that file.
        """
        size, block = int(parameters.get("size") or 0), int(parameters.get("bs") or _PAGE)
        grain = max(block, _PAGE)
        part = size // len(self._all) // grain * grain
        if part < block:
            raise UserError(f"--size {size} has no block for each of {len(self._all)} hosts; use a larger one")
        path = next(iter(scratch.values())).data if scratch else str(parameters["path"])
        found = {}
        for number, (name, given) in enumerate(by_host.items()):
            if is_shared:
                self._check_sees(name, path)
            at = {"path": path, "offset": int(parameters.get("offset") or 0) + number * part} if is_shared else {}
            found[name] = {**given, "size": part, **at}
        return found

    def _check_sees(self, name: str, path: str) -> None:
        if name in self._seeing:
            return
        try:
            self._members[name].file_size(path)
        except (ValueError, FileNotFoundError, NotADirectoryError):
            raise UserError(f"--shared-file: {name} does not see {path}; use a --path that all hosts share") from None
        except HostLostError:
            return
        except OSError as error:
            raise UserError(f"--shared-file: {name} cannot use {path}: {error.strerror or error}") from None
        self._seeing.add(name)

    def _adapt_parameters(
        self, parameters: dict[str, Any], name: str, number: int, scratch: Mapping[str, ScratchFile]
    ) -> dict[str, Any]:
        """The parameters for one host: with its data file, its random seed, and its number where it has objects."""
        adapted = dict(parameters)
        shared = next(iter(scratch.values()), None)
        if shared is not None and adapted.get("path") == shared.data and name in scratch:
            adapted["path"] = scratch[name].data
        if isinstance(adapted.get("seed"), int):
            adapted["seed"] += number * SEEDS_APART
        if "client" in adapted:
            adapted["client"] = 1 + number
        return adapted
