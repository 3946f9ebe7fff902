"""A preparation of a scenario: what it makes, its bytes and time, and how it is removed."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from hwdyno.measure.hosts import Host
from hwdyno.measure.workspace import MadeFolder, ScratchDirectory, clean_stale
from hwdyno.model.words import UserError

Says = Callable[[str], None]


class Interrupted(KeyboardInterrupt):
    """Ctrl-C while something was made; its text says what becomes of it."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Preparation:
    """Something that a scenario makes and removes, or, if its points make it themselves, only removes."""

    description: str = ""
    """What it is, where, and what becomes of it, for a dry run; empty for what is not worth a line."""
    where: Path
    bytes: int = 0
    """What will be written."""
    is_limit: bool = False
    """Whether ``bytes`` is the most that will be written."""
    by_points: bool = False
    """Whether the points write it: then their own lines count its bytes."""
    compute_s: float = 0.0
    """Time that it takes in addition to writing."""
    experiments: frozenset[str] = frozenset()
    """Experiments that are left out where it cannot be made."""
    is_of_a_site: bool = False
    """Whether several hosts can be measured with it, because all of them reach what it makes."""

    def seconds(self, write_bytes_s: float) -> float:
        """How long it takes at least, where ``write_bytes_s`` is what the storage takes at most."""
        return 0.0 if self.by_points else self.bytes / write_bytes_s + self.compute_s

    @contextlib.contextmanager
    def make_available(self, host: Host, says: Says) -> Iterator[bool]:
        """It is there inside of the context, and gone after; false where this machine cannot make it.

        Raises ``UserError`` for what the machine refused, and ``Interrupted``.
        """
        yield True


@dataclass(frozen=True, kw_only=True, eq=False)
class FolderOfPoints(Preparation):
    """A folder in which a kernel makes and removes a directory of each reading; one that a killed run left goes."""

    by_points: bool = True

    @contextlib.contextmanager
    def make_available(self, host: Host, says: Says) -> Iterator[bool]:
        """The folder; after, it goes if hwdyno made it and nothing else is in it. Raises ``UserError`` for a link."""
        folder = MadeFolder(self.where)
        clean_stale(self.where)
        try:
            yield True
        finally:
            clean_stale(self.where)
            folder.remove()


@dataclass(frozen=True, kw_only=True, eq=False)
class ScratchFolder(Preparation):
    """The directory of one run's own in which ``hwdyno run`` puts what its scenarios make."""

    scratch: ScratchDirectory

    @contextlib.contextmanager
    def make_available(self, host: Host, says: Says) -> Iterator[bool]:
        """The directory, locked against other runs' clean-up."""
        with self.scratch:
            yield True


def make_error(error: OSError) -> UserError:
    """What the engine refused, as a user's error."""
    return UserError(error.strerror or str(error))
