"""Where points run: a host is one machine, and a site is the set of hosts that is measured as one."""

from __future__ import annotations

from hwdyno.measure.hosts.host import Host, HostLostError, KernelCall, Loadable, LoadError, UnderLoad
from hwdyno.measure.hosts.member import Done, Ended, MemberEvent, Ready, Refused, ScratchFile
from hwdyno.measure.hosts.reference_tools import Outcome, Program

__all__ = [
    "Done",
    "Ended",
    "Host",
    "HostLostError",
    "KernelCall",
    "LoadError",
    "Loadable",
    "MemberEvent",
    "Outcome",
    "Program",
    "Ready",
    "Refused",
    "ScratchFile",
    "UnderLoad",
]
