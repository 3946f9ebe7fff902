"""One host's part in the current reading of a site, and which part is started and awaited last."""

from __future__ import annotations

import select
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import cast

from hwdyno.measure import engine
from hwdyno.measure.hosts.host import HostLostError
from hwdyno.measure.hosts.launch import boot_id
from hwdyno.measure.hosts.member import Done, Ended, Member, MemberEvent, Ready, Refused
from hwdyno.measure.hosts.reference_tools import Outcome

POLL_S = 0.05


@dataclass
class HostPart:
    """One host's part in the current reading."""

    member: Member
    offset_ns: int = 0
    """Its clock minus ours."""
    began_ns: int = 0
    """When its part was requested, by our clock."""
    ready: bool = False
    event: Done | Ended | Refused | None = None
    failure: str = ""
    stopped: bool = False

    @property
    def pending(self) -> bool:
        """Whether it has not ended."""
        return self.event is None and not self.failure

    @property
    def outcome(self) -> Outcome | ValueError | OSError:
        """How the program on it ended, or why it did not run."""
        if isinstance(self.event, Refused):
            return self.event.error
        return self.event.outcome if isinstance(self.event, Ended) else HostLostError(self.failure)

    def take(self, event: MemberEvent | None) -> None:
        """Note that it is ready, or how it ended."""
        if isinstance(event, Ready):
            self.ready = True
        elif event is not None:
            self.event = event


def is_here(member: Member) -> bool:
    """Whether its monotonic clock is ours, because one kernel runs both."""
    return member.boot != "" and member.boot == boot_id()


def last_here(parts: Mapping[str, HostPart]) -> list[tuple[str, HostPart]]:
    """The parts with those last that measure on the processor that this process is on.

    Their threads spin until the start, and take the processor from whoever has the others' start still to send.
    """
    here = engine.processor()
    return sorted(parts.items(), key=lambda item: _is_at(item[1], here))


def _is_at(part: HostPart, processor: int) -> bool:
    """Whether it measures on that processor of this machine."""
    return is_here(part.member) and processor in part.member.processors


def ends_last(parts: Mapping[str, HostPart]) -> list[HostPart]:
    """The last part that measures on this process's own processor; all parts where none does.

    A wait for one of the others would only take the processor from it.
    """
    here = engine.processor()
    return [part for part in parts.values() if _is_at(part, here)][-1:] or list(parts.values())


def await_event(members: Sequence[Member]) -> bool:
    """Wait until a member may have an event, for a poll's time at most; false where that cannot be waited for."""
    descriptors = [member.descriptor for member in members]
    if any(descriptor is None for descriptor in descriptors):
        return False
    waiting = select.poll()
    for descriptor in descriptors:
        waiting.register(cast(int, descriptor), select.POLLIN)
    waiting.poll(POLL_S * 1000)
    return True


def started_ns(part: HostPart) -> int:
    """When a host started, by our clock."""
    assert isinstance(part.event, Done)
    return part.event.started_ns - part.offset_ns


def is_start_possible(part: HostPart, slack_ns: int) -> bool:
    """Whether a host started after its part was requested and before now, as far as its clock is known."""
    return part.began_ns - slack_ns <= started_ns(part) <= time.monotonic_ns() + slack_ns
