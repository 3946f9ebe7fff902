"""What the requests of an object store's plan cost at most, at prices that the user gives."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from hwdyno.model.units import format_bytes, format_count, number_at, printed_number
from hwdyno.model.words import Parameters, UserError

if TYPE_CHECKING:
    from hwdyno.measure.dry_run import Line
    from hwdyno.measure.plan import Plan
    from hwdyno.model.machine import Machine

REQUESTS = ("get", "put", "head", "list", "delete")
"""Kinds of requests with a price each 1,000; a range is a get."""
OUT = "out"
"""The price of a GB that the store sends."""
PER_REQUESTS, GB = 1000, 1e9
MIN_REQUEST_S = 1e-3
"""No store that has a price answers sooner."""
UNKNOWN_LINK_BYTES_S = 100e9 / 8
"""A link that is not known carries no more than this."""
PAGE_KEYS, KEY_BYTES = 1000, 500
"""Keys of a page of a listing, and bytes of each there."""
CONTROL_REQUESTS = 10
"""Requests of each kind at most that write, read and remove the run's mark."""
_CHECKS = {"get": "head", "range": "head", "head": "head", "list": "list", "put": "get", "delete": "get"}
"""The request before each reading that checks whether it can be measured."""


_VISITS = {"first": 1, "second": 2}
"""How often each object is read that is made anew for a reading."""
_UPLOADS = {"put", "multipart"}
_PRICED_AS = {"range": "get", "multipart": "put"}
"""A part, and what begins and ends an upload in parts, is priced as a put."""
MIN_PART_BYTES = 5 << 20
"""The smallest part that S3 takes, and the default."""
WARPS_MIX = "get=45,head=30,put=15,delete=10"


def parse_prices(text: str) -> dict[str, float]:
    """The prices of ``put=0.005,get=0.0004,out=0.09`` by name; raises ``UserError``."""
    known, found = (*REQUESTS, OUT), dict[str, float]()
    for part in text.split(","):
        name, _, amount = (word.strip() for word in part.partition("="))
        price = printed_number(amount)
        if name not in known or price is None or price < 0 or name in found:
            raise UserError(
                f"--price {part.strip()}: prices are NAME=AMOUNT, each once, such as put=0.005,get=0.0004,out=0.09; "
                f"names: {', '.join(known)}"
            )
        found[name] = price
    return found


def find_link(machine: Machine) -> float:
    """Bytes a second of the fastest interface that is up; a fast link's where none is known."""
    rates = [float(nic.bits_s) / 8 for nic in machine.nics if nic.bits_s and nic.up]
    return max(rates, default=UNKNOWN_LINK_BYTES_S)


def describe_costs(
    plan: Plan, layouts: Sequence[Mapping[str, Any]], prices: Mapping[str, float], link_bytes_s: float,
    clients: int, lines: Sequence[Line],
) -> Iterator[str]:  # fmt: skip
    """Lines of a dry run with the requests, the bytes and the cost, each at most, of as many hosts as ``clients``."""
    fixed = {planned.experiment.name: planned.fixed for planned in plan.experiments}
    requests = Counter[str](dict.fromkeys(REQUESTS, CONTROL_REQUESTS))
    sent_bytes = received_bytes = 0.0
    for layout in layouts:
        made = int(layout["objects"]) * (clients if layout.get("separate_objects") else 1)
        requests.update({"put": made, "delete": made, "list": 1 + made // PAGE_KEYS})
        sent_bytes += made * float(layout["object_size"])
    for line in lines:
        point = {**fixed.get(line.experiment, {}), **line.parameters}
        counted, up, down = count_requests(point, line.max_s, line.max_readings, link_bytes_s)
        requests.update({kind: clients * count for kind, count in counted.items()})
        sent_bytes, received_bytes = sent_bytes + clients * up, received_bytes + clients * down
    counts = ", ".join(f"{name} {format_count(requests[name])}" for name in REQUESTS)
    yield (
        f"requests: up to {format_count(requests.total())} ({counts}); up to {format_bytes(sent_bytes)} in and "
        f"{format_bytes(received_bytes)} out"
    )
    parts = {name: requests[name] / PER_REQUESTS * price for name, price in prices.items() if name != OUT}
    if OUT in prices:
        parts[OUT] = received_bytes / GB * prices[OUT]
    shown = ", ".join(f"{name} {_format_price(cost)}" for name, cost in parts.items())
    without = [name for name in (*REQUESTS, OUT) if name not in prices]
    missing = f"; without a price: {', '.join(without)}" if without else ""
    yield f"cost: up to {_format_price(sum(parts.values()))} ({shown}){missing}"


def count_requests(
    point: Parameters, seconds: float, readings: int, link_bytes_s: float
) -> tuple[Counter[str], float, float]:
    """Requests of a point by kind at most, and the bytes in and out of the store, in its readings of ``seconds``."""
    operation, size = str(point.get("operation", "get")), number_at(point, "object_size", 8 << 20)
    objects, counted = number_at(point, "objects", 1.0), Counter({_CHECKS.get(operation, "get"): readings})
    made = int(objects) * readings
    if operation == "delete":
        # Each reading makes what it removes.
        counted.update({"put": made, "delete": made})
        return counted, made * size, 0.0
    if (visits := _VISITS.get(str(point.get("visit")), 0)) and operation == "get":
        # Each reading makes what it reads.
        counted.update({"put": made, "get": visits * made})
        return counted, made * size, visits * made * size
    shares = _parse_mix(str(point.get("mix") or "")) if operation == "mixed" else {operation: 1.0}
    bytes_of = {
        "get": size, "put": size, "multipart": size, "range": number_at(point, "range_size", size),
        "list": KEY_BYTES * min(PAGE_KEYS, objects),
    }  # fmt: skip
    moved = {name: share * bytes_of.get(name, 0.0) for name, share in shares.items()}
    up = sum(bytes_ for name, bytes_ in moved.items() if name in _UPLOADS)
    # A link has both directions at once.
    busiest = max(up, sum(moved.values()) - up)
    rate = number_at(point, "concurrency", 20.0) / MIN_REQUEST_S
    rate = min(rate, number_at(point, "rate") or math.inf, link_bytes_s / busiest if busiest else math.inf)
    # Those in flight as time ends are complete, too.
    sent = math.ceil(rate * seconds) + int(number_at(point, "concurrency", 20.0)) * readings
    parts = math.ceil(size / number_at(point, "part_size", MIN_PART_BYTES))
    for name, share in shares.items():
        requests = 2 + parts if name == "multipart" else 1
        counted.update({_PRICED_AS.get(name, name): math.ceil(share * sent) * requests})
    return counted, sent * up, sent * (sum(moved.values()) - up)


def _parse_mix(text: str) -> dict[str, float]:
    """The share of each operation of ``get=75,put=25``, of a whole; an empty text is warp's mix."""
    parts = [part.partition("=") for part in (text or WARPS_MIX).split(",")]
    weights = {name.strip(): printed_number(weight) or 0.0 for name, _, weight in parts}
    whole = sum(weights.values())
    return {name: weight / whole for name, weight in weights.items() if whole}


def _format_price(amount: float) -> str:
    """An amount of money, with two digits below a cent."""
    return f"{amount:,.2f}" if amount >= 0.01 or not amount else f"{amount:.2g}"
