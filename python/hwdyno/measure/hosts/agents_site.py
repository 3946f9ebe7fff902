"""The site of the agents that commands start."""

from __future__ import annotations

import atexit
import contextlib
import shlex
from functools import cache

from hwdyno.measure.hosts.agent import Agent
from hwdyno.measure.hosts.host import HostLostError
from hwdyno.measure.hosts.measured_site import Site
from hwdyno.measure.hosts.member import Member
from hwdyno.measure.hosts.several_hosts import SeveralHosts
from hwdyno.model.words import UserError


@cache
def of_commands(text: str) -> Site:
    """The site of the agents that these commands start, ``;`` between them; it is let go at the exit.

    Raises ``UserError`` where one cannot be started.
    """
    commands = [shlex.split(command) for command in text.split(";") if command.strip()]
    if not commands:
        raise UserError("HWDYNO_AGENTS names no command; write: hwdyno-engine serve; ssh node7 hwdyno-engine serve")
    members: list[Member] = []
    try:
        members.extend(map(Agent, commands))
        site = SeveralHosts(members)
    except HostLostError as error:
        for member in members:
            with contextlib.suppress(OSError):
                member.abandon()
        raise UserError(f"HWDYNO_AGENTS: {error}") from None
    atexit.register(site.close)
    return site
