"""Limits that a person knows, as the ceilings of each resource: stated figures, links and devices by name."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from hwdyno.analysis.ceilings.given import parse_given
from hwdyno.analysis.ceilings.named import link_ceilings, parse_device, parse_link
from hwdyno.model.words import Ceiling

_ARITHMETIC = {"FLOP/s", "IOP/s"}


def known_ceilings(
    resource: str,
    ceilings: Sequence[str],
    links: Sequence[str] = (),
    devices: Sequence[str] = (),
    parse: Callable[[str], Ceiling] = parse_given,
) -> tuple[Ceiling, ...]:
    """The ceilings of a resource's results, of ``rated read 400 MB/s``, ``PCIe 3 x4`` and a drive or GPU of the
    catalogue. Raises ``UserError`` for what cannot be read."""
    stated = [parse(text) for text in ceilings]
    found = [ceiling for ceiling in stated if (ceiling.unit in _ARITHMETIC) == (resource == "compute")]
    found += [ceiling for text in links for ceiling in link_ceilings(parse_link(text), resource)]
    found += [ceiling for text in devices for ceiling in parse_device(text)(resource)]
    return tuple(dict.fromkeys(found))
