"""A peer on every host of a site: started together, read on each, and merged as our own readings are."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from hwdyno.measure.hosts import HostLostError, Outcome
from hwdyno.measure.hosts.measured_site import Site
from hwdyno.measure.peers.peer import Peer, PeerReading
from hwdyno.measure.peers.program import ProgramPeer
from hwdyno.model.words import UserError


def why_left_out(peer: Peer, site: Site) -> str:
    """Why a site of several hosts cannot be compared with this peer, in one line; empty if it can."""
    if not isinstance(peer, ProgramPeer):
        return f"{peer.name} is left out: it runs on one host only, and this site has several"
    missing = [name for name, path in site.which(peer.asking_version).items() if path is None]
    if not missing:
        return ""
    hosts = ", ".join(f"host {name}" for name in missing)
    return f"{peer.name} is left out: it is not on {hosts}; install it there to compare"


def version(peer: Peer, site: Site) -> str:
    """The peer's version; of several hosts every one that differs."""
    if not site.several or not isinstance(peer, ProgramPeer) or not peer.asks_version:
        return peer.version() or ""
    found = site.execute_each(dict.fromkeys(site.which(peer.asking_version), peer.asking_version)).values()
    printed = [outcome.stdout for outcome in found if isinstance(outcome, Outcome) and not outcome.status]
    return ", ".join(dict.fromkeys(map(peer.parse_version, printed)))


def run_on_site(peer: Peer, kernel: str, parameters: dict[str, Any], site: Site) -> PeerReading:
    """Run the peer once on each host of the site.

    Raises ``UserError`` for a point that it cannot measure, and ``OSError`` where it fails on one host, which is
    named: a part of the hosts is no comparison.
    """
    if not isinstance(peer, ProgramPeer):
        return peer.run(kernel, parameters)
    if why := peer.unsupported_reason(kernel, parameters):
        raise UserError(why)
    by_host = site.parameters_of_each(parameters)
    outcomes = site.execute_each({name: peer.program(kernel, job) for name, job in by_host.items()})
    readings = {name: _reading(peer, by_host[name], outcome, name) for name, outcome in outcomes.items()}
    return merge_readings(readings) if site.several else next(iter(readings.values()))


def _reading(
    peer: ProgramPeer, parameters: Mapping[str, Any], outcome: Outcome | ValueError | OSError, host: str
) -> PeerReading:
    """One host's reading; its failure with the host's name, if it has one."""
    where = f"host {host}: " if host else ""
    try:
        if isinstance(outcome, Outcome):
            return peer.reading(parameters, outcome)
        raise outcome
    except HostLostError as error:
        raise OSError(f"{where}{error}") from None
    except TimeoutError as error:
        raise TimeoutError(f"{where}{error.strerror or error}") from None
    except OSError as error:
        raise OSError(f"{where}{error.strerror or error}") from None
    except ValueError as error:
        raise UserError(f"{where}{error}") from None


def merge_readings(readings: Mapping[str, PeerReading]) -> PeerReading:
    """The hosts' readings as one.

    Rates, operations and CPU time are summed, and the mean latency is that of all operations. Nothing else is merged:
    percentiles of several hosts cannot be (no tool prints its whole histogram), so each host's figures are under its
    name in ``details["hosts"]``. Raises ``OSError`` where the hosts' units differ.
    """
    every = list(readings.values())
    units = sorted({reading.unit for reading in every})
    if len(units) > 1:
        raise OSError(f"its hosts answered in {' and '.join(units)}")
    weights = [reading.operations for reading in every]
    means = [reading.latency_ns_mean for reading in every if reading.latency_ns_mean is not None]
    mean = None
    if len(means) == len(every) and all(weights):
        mean = sum(ns * weight for ns, weight in zip(means, weights, strict=True)) / sum(weights)
    return PeerReading(
        throughput=sum(reading.throughput for reading in every),
        unit=units[0],
        rate=_sum([reading.rate for reading in every]),
        latency_ns_mean=mean,
        cpu_s=_sum([reading.cpu_s for reading in every]),
        operations=sum(reading.operations for reading in every),
        details={"hosts": {name: asdict(reading) for name, reading in readings.items()}},
    )


def _sum(figures: list[float | None]) -> float | None:
    """The sum; none where one is not known."""
    known = [figure for figure in figures if figure is not None]
    return sum(known) if len(known) == len(figures) else None
