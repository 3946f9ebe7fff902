"""A data set in a folder: hwdyno's, whose missing files are generated, or an existing one of the user."""

from __future__ import annotations

import contextlib
import errno
import glob
from collections.abc import Iterator
from dataclasses import dataclass

from hwdyno.formats.workload import TrainingWorkload
from hwdyno.measure.hosts import Host
from hwdyno.measure.scenarios.preparation import Interrupted, Preparation, Says, make_error
from hwdyno.measure.workspace import MadeFolder
from hwdyno.model.units import format_bytes_s, format_duration, format_size
from hwdyno.model.words import UserError

_NO_ROOM = {errno.ENOSPC, errno.EDQUOT}


class GeneratingInterrupted(Interrupted):
    """Complete files stay, so that the same command continues."""


@dataclass(frozen=True, kw_only=True, eq=False)
class DataSet(Preparation):
    """A data set: hwdyno's, whose missing files are generated, or an existing one of the user."""

    data: TrainingWorkload
    is_ours: bool
    keeps: bool = False
    """Whether it stays for the next command."""

    @contextlib.contextmanager
    def make_available(self, host: Host, says: Says) -> Iterator[bool]:
        """The data set; after, it goes if it was not there before, unless it is to stay."""
        if not self.is_ours:
            yield True
            return
        name = f"{glob.escape(self.data.prefix)}_*_of_{self.data.files}.{self.data.format}"
        folder = MadeFolder(self.where, name, f"{name}.part", keeps=self.keeps)
        end = folder.release if self.keeps or not folder.is_new else folder.remove
        try:
            try:
                self._generate(host, says)
            except UserError:
                end = folder.remove
                raise
            yield True
        except GeneratingInterrupted:
            end = folder.release  # This data set or another was interrupted; the same command continues with both.
            raise
        finally:
            end()

    def _generate(self, host: Host, says: Says) -> None:
        """Write what is missing."""
        kind = self.data
        says(f"generating {kind.samples} samples of {kind.name} ({format_size(kind.bytes)}) …")
        try:
            reading = host.run("training_generate", {**kind.layout, "path": str(self.where)})
        except OSError as error:
            raise make_error(error) from None
        for fault in reading["faults"]:
            hint = "; free space or use fewer --samples" if fault["errno"] in _NO_ROOM else ""
            raise UserError(f"the data set could not be written: {fault['says']}{hint}")
        (stream,) = reading["streams"]
        if stream["bytes"]:
            speed = format_bytes_s(stream["bytes"] / reading["elapsed_s"])
            says(f"generated {format_size(stream['bytes'])} in {format_duration(reading['elapsed_s'])}: {speed}")
        if reading["interrupted"]:
            raise GeneratingInterrupted("interrupted while generating; run the same command to continue")
