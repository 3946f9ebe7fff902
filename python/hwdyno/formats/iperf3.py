"""Reads the JSON of ``iperf3 -J`` into a Run, and writes a Run's point as such a document.

What the fields mean is in esnet/iperf's ``iperf_api.c`` (``iperf_json_start``, ``iperf_print_results``): bits/s,
bytes, round trips in µs, jitter in ms, CPU shares in percent of one core.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta, timezone
from typing import Any

from hwdyno.model.kernels import NETWORK_THROUGHPUT
from hwdyno.model.machine import Machine, OperatingSystem
from hwdyno.model.point_details import Claim, Concurrency, Fault, Note, Samples
from hwdyno.model.units import amount_at, number_at
from hwdyno.model.words import ExperimentResult, Measurement, Parameters, Run, Stream, UserError, Value
from hwdyno.system import foreign, loopback

NAME = "iperf3-json"
KERNEL = NETWORK_THROUGHPUT


def recognizes(text: str) -> bool:
    """Whether this looks like iperf3's JSON."""
    head = text[:65536]
    return '"start"' in head and ('"test_start"' in head or ('"version"' in head and '"iperf' in head))


def parse(text: str, name: str = "iperf3's output") -> dict[str, Any]:
    """Parse the document; iperf3 before 3.18 truncates it after some errors. Raises ``UserError``."""
    start = text.find("{")
    document = foreign.json_at(text, max(start, 0))
    if document is None:
        raise UserError(f"{name} is not a complete JSON document; run iperf3 with -J to its end")
    if not isinstance(document, dict) or not ({"start", "end", "error"} & set(document)):
        raise UserError(f"{name} has no iperf3 result; run iperf3 with -J")
    whole: dict[str, Any] = foreign.check_document(document, name)
    return whole


def _table(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _tables(value: Any) -> list[dict[str, Any]]:
    return [table for table in value if isinstance(table, dict)] if isinstance(value, list) else []


def convert_document(document: Mapping[str, Any]) -> Measurement:
    """Convert a document to a Measurement: goodput at the receiver, and TCP's or the datagrams' statistics."""
    start, end = _table(document.get("start")), _table(document.get("end"))
    test = _table(start.get("test_start"))
    udp = str(test.get("protocol", "TCP")).upper() == "UDP"
    # iperf3 before 3.13 does not mark a bidirectional test, and gives the sums of both ways.
    both = bool(amount_at(test, "bidir")) or any("_bidir_reverse" in name for name in end)
    block = amount_at(test, "blksize") or (1460 if udp else 131072)
    parameters: Parameters = {
        "protocol": "udp" if udp else "tcp",
        "streams": int(amount_at(test, "num_streams") or 1),
        "block": int(block),
        "direction": "both" if both else "down" if amount_at(test, "reverse") else "up",
    }
    if rate := amount_at(test, "target_bitrate"):
        parameters["rate"] = int(rate)
    names = ("up", "down") if both else (str(parameters["direction"]),)
    streams, elapsed_s, sums = [], 0.0, []
    for name, suffix in zip(names, ("", "_bidir_reverse"), strict=False):
        received = _table(end.get(f"sum_received{suffix}"))
        # iperf3 before 3.13 gives one sum for UDP, of the sender's bytes.
        whole = received or _table(end.get(f"sum{suffix}"))
        sums.append((_table(end.get(f"sum_sent{suffix}")), whole))
        moved = amount_at(whole, "bytes")
        if udp and not received:
            moved *= max(0.0, 1 - amount_at(whole, "lost_percent") / 100)
        packets = amount_at(whole, "packets") - amount_at(whole, "lost_packets")
        streams.append(Stream(name, int(packets if udp and packets > 0 else moved / block), int(moved)))
        elapsed_s = max(elapsed_s, amount_at(whole, "seconds"))
    moved_bytes = sum(stream.bytes for stream in streams)
    operations = sum(stream.operations for stream in streams)
    per_s = 1 / elapsed_s if elapsed_s else 0.0
    cpu = _table(end.get("cpu_utilization_percent"))
    error = str(document.get("error", ""))
    faults = (Fault("iperf3", 0, " ".join(error.split()), 1),) if error else ()
    return Measurement(
        parameters=parameters,
        throughput=Value(moved_bytes * per_s, "bytes/s"),
        rate=Value(operations * per_s, "operations/s"),
        latency_ns=None,
        streams=tuple(streams),
        samples=_samples(_tables(document.get("intervals"))),
        concurrency=Concurrency(float(parameters["streams"] or 1) * len(names), None),
        cpu_user_s=elapsed_s * amount_at(cpu, "host_user") / 100,
        cpu_system_s=elapsed_s * amount_at(cpu, "host_system") / 100,
        elapsed_s=elapsed_s,
        operations=operations,
        bytes=moved_bytes,
        repeats=1,
        repeat_values=(moved_bytes * per_s,),
        validity="degraded" if faults or not moved_bytes else "valid",
        why=("tool-error",) if faults else () if moved_bytes else ("nothing-measured",),
        details=_details(document, sums, elapsed_s, moved_bytes),
        faults=faults,
        notes=(Note("jitter_unit", "jitter is measured by the receiver (RFC 3550), smoothed over 16 datagrams"),)
        if udp
        else (),
        claims=tuple(_claims(sums, test)),
    )


SHORTEST_S = 0.001
"""iperf3 prints its own times in µs; below this, rounding hides any slip with a unit."""


def _claims(sums: Iterable[tuple[dict[str, Any], dict[str, Any]]], test: Mapping[str, Any]) -> Iterable[Claim]:
    """What the sums state twice, and that no end receives more than the other one sent."""
    for sent, received in sums:
        for end, whole in (("sender's", sent), ("receiver's", received)):
            moved, seconds, stated = (amount_at(whole, name) for name in ("bytes", "seconds", "bits_per_second"))
            if moved and stated and seconds >= SHORTEST_S:
                error = 1e-6 / seconds + 0.005  # Before 3.13 the two ends' times differ in one sum of UDP.
                yield Claim(f"{end} rate", stated / 8, moved / seconds, "bytes/s", "bytes x 8 / seconds", error)
        moved, limit = amount_at(received, "bytes"), amount_at(sent, "bytes")
        if moved and limit:
            # Each end leaves out the first seconds by its own clock, and then what is on the way counts at one of them.
            error = 0.1 if amount_at(test, "omit") else 0.01
            yield Claim("received", moved, limit, "bytes", "sent", error, at_most=True)


def _samples(intervals: Iterable[Mapping[str, Any]]) -> Samples | None:
    sums = [
        (
            amount_at(total, "bits_per_second") + amount_at(_table(row.get("sum_bidir_reverse")), "bits_per_second"),
            total,
        )
        for row in intervals
        if not (total := _table(row.get("sum"))).get("omitted")
    ]
    values = tuple(bits / 8 for bits, total in sums if amount_at(total, "seconds") > 0)
    if not values:
        return None
    return Samples(min(values), sum(values) / len(values), max(values), amount_at(sums[0][1], "seconds"), values=values)


def _details(
    document: Mapping[str, Any], sums: list[tuple[dict[str, Any], dict[str, Any]]], elapsed_s: float, moved: int
) -> dict[str, Any]:
    start, end = _table(document.get("start")), _table(document.get("end"))
    cpu = _table(end.get("cpu_utilization_percent"))
    here, there = (elapsed_s * amount_at(cpu, name) / 100 for name in ("host_total", "remote_total"))
    found: dict[str, Any] = {"cpu_here_s": here, "cpu_there_s": there, "received_bytes": moved}
    if moved:
        found["cpu_ns_per_kib"] = (here + there) * 1e9 / (moved / 1024)
    sent = sum(amount_at(total, "bytes") for total, _ in sums)
    if sent:
        found["sent_bytes"] = sent
    if any("retransmits" in total for total, _ in sums):
        found["retransmits"] = sum(amount_at(total, "retransmits") for total, _ in sums)
    if any("lost_packets" in whole for _, whole in sums):
        lost, packets = (sum(amount_at(whole, name) for _, whole in sums) for name in ("lost_packets", "packets"))
        found |= {"datagrams_lost": lost, "loss_share": lost / packets if packets else 0.0}
        found["jitter_us"] = 1e3 * sum(amount_at(whole, "jitter_ms") for _, whole in sums) / len(sums)
        found["datagrams_received_s"] = max(0.0, packets - lost) / elapsed_s if elapsed_s else 0.0
    senders = [_table(stream.get("sender")) for stream in _tables(end.get("streams"))]
    round_trips = [amount_at(sender, "mean_rtt") for sender in senders if sender.get("mean_rtt")]
    if round_trips:
        found["rtt_mean_us"] = sum(round_trips) / len(round_trips)
        found["cwnd_max_bytes"] = max(amount_at(sender, "max_snd_cwnd") for sender in senders)
    if control := end.get("sender_tcp_congestion"):
        found["congestion_control"] = str(control)
    hosts = [str(connection.get("remote_host")) for connection in _tables(start.get("connected"))]
    if hosts:
        found["loopback"] = loopback.is_one(hosts[0])
    return found


def read(text: str, name: str) -> Run:
    """Read iperf3's JSON into a Run. The same file always gives the same Run, including its id."""
    document = parse(text, name)
    point = convert_document(document)
    start = _table(document.get("start"))
    seconds = amount_at(_table(start.get("timestamp")), "timesecs")
    began = datetime.fromtimestamp(seconds, timezone.utc) if 1e9 < seconds < 1e11 else None
    digest = hashlib.sha256(text.encode(errors="replace")).hexdigest()[:8]
    why = "not in iperf3's JSON"
    return Run(
        id=f"iperf3-{f'{began:%Y%m%d-%H%M%S}' if began else 'undated'}-{digest}",
        started=began.isoformat() if began else "",
        finished=(began + timedelta(seconds=min(point.elapsed_s, 1e9))).isoformat() if began else None,
        machines=(
            Machine(
                os=OperatingSystem(kernel=str(system) if (system := start.get("system_info")) else None),
                unknown={"hostname": why, "cpu": why, "memory": why},
            ),
        ),
        profile="imported",
        command=f"iperf3 ({name})",
        experiments=(
            ExperimentResult(
                name="network.iperf3",
                resource="network",
                asks="iperf3 results",
                load="streams",
                kernel=KERNEL,
                points=(point,),
                planned=1,
            ),
        ),
        degraded=tuple(f"iperf3 failed: {fault.says}" for fault in point.faults),
        version=str(start.get("version", "")),
        imported_from=NAME,
    )


def write(run: Run) -> str:
    """Write the last network point of a Run as iperf3's JSON, valid also after a fault. Raises ``UserError``."""
    found = list(run.measured_points(KERNEL))
    if not found:
        raise UserError("iperf3's format has streams only, and none were measured; measure streams, block or udp")
    _, _, point, given = found[-1]
    return json.dumps(make_document(run, point, given), indent=1)


def make_document(run: Run, point: Measurement, given: Parameters) -> dict[str, Any]:
    """One point as an iperf3 document."""
    details, elapsed_s = point.details, point.elapsed_s / max(1, point.repeats)
    udp = given.get("protocol") == "udp"
    rows = _tables(details.get("per_stream"))
    ends, sums = [], {}
    for name, suffix in (("up", ""), ("down", "_bidir_reverse" if given.get("direction") == "both" else "")):
        rows_of_way = [row for row in rows if bool(row.get("up")) == (name == "up")]
        if not rows_of_way:
            continue
        sent, received = (sum(number_at(row, key) for row in rows_of_way) for key in ("sent_bytes", "received_bytes"))
        sums[f"sum_sent{suffix}"] = _sum(sent, elapsed_s, rows_of_way if not udp else None, sender=name == "up")
        sums[f"sum_received{suffix}"] = _sum(received, elapsed_s, None, sender=name == "up")
        if udp:
            lost, packets = (sum(number_at(row, key) for row in rows_of_way) for key in ("lost", "packets"))
            jitter = sum(number_at(row, "jitter_ns") for row in rows_of_way) / len(rows_of_way) / 1e6
            whole = _sum(received, elapsed_s, None, sender=name == "up")
            whole |= {"jitter_ms": jitter, "lost_packets": int(lost), "packets": int(packets)}
            whole["lost_percent"] = 100 * lost / packets if packets else 0.0
            sums[f"sum{suffix}"] = whole
        ends += [_make_end(row, elapsed_s, udp) for row in rows_of_way]
    cpu = [number_at(details, name) / elapsed_s * 100 if elapsed_s else 0.0 for name in ("cpu_here_s", "cpu_there_s")]
    document: dict[str, Any] = {
        "start": {
            "connected": [{"socket": row["id"], "remote_host": given.get("server") or loopback.IPV4} for row in rows],
            "version": f"hwdyno {run.version}",
            "system_info": run.machine.os.kernel or "",
            "timestamp": {"time": run.started, "timesecs": _seconds(run.started)},
            "connecting_to": {"host": given.get("server") or loopback.IPV4, "port": given.get("port") or 5201},
            "tcp_mss_default": int(number_at(details, "mss_bytes")),
            "test_start": {
                "protocol": "UDP" if udp else "TCP",
                "num_streams": given.get("streams", 1),
                "blksize": given.get("block") or (1460 if udp else 131072),
                "omit": 0,
                "duration": round(elapsed_s, 3),
                "bytes": given.get("bytes") or 0,
                "blocks": 0,
                "reverse": int(given.get("direction") == "down"),
                "bidir": int(given.get("direction") == "both"),
                "target_bitrate": given.get("rate") or 0,
                "tos": 0,
            },
        },
        "intervals": _intervals(details, rows, point.samples.interval_s if point.samples else 0.1),
        "end": {
            "streams": ends,
            **sums,
            "cpu_utilization_percent": {"host_total": cpu[0], "remote_total": cpu[1]},
        },
    }
    if not udp and details.get("congestion_control"):
        document["end"]["sender_tcp_congestion"] = details["congestion_control"]
    if point.faults:
        document["error"] = point.faults[0].says
    return document


def _seconds(text: str) -> int:
    try:
        return int(datetime.fromisoformat(text).timestamp())
    except ValueError:
        return 0


def _sum(moved: float, elapsed_s: float, rows: Iterable[Mapping[str, Any]] | None, *, sender: bool) -> dict[str, Any]:
    found: dict[str, Any] = {
        "start": 0,
        "end": elapsed_s,
        "seconds": elapsed_s,
        "bytes": int(moved),
        "bits_per_second": moved * 8 / elapsed_s if elapsed_s else 0.0,
    }
    if rows is not None:
        found["retransmits"] = int(sum(number_at(row, "retransmits") for row in rows))
    return {**found, "sender": sender}


def _make_end(row: Mapping[str, Any], elapsed_s: float, udp: bool) -> dict[str, Any]:
    up = bool(row.get("up"))
    sent = {"socket": row["id"], **_sum(number_at(row, "sent_bytes"), elapsed_s, None if udp else [row], sender=up)}
    if udp:
        lost, packets = number_at(row, "lost"), number_at(row, "packets")
        datagrams = {"jitter_ms": number_at(row, "jitter_ns") / 1e6, "lost_packets": int(lost), "packets": int(packets)}
        share = 100 * lost / packets if packets else 0.0
        return {"udp": {**sent, **datagrams, "lost_percent": share, "out_of_order": int(number_at(row, "reordered"))}}
    tcp = _table(row.get("tcp"))
    names = ("max_snd_cwnd", "max_rtt", "min_rtt", "mean_rtt")
    received = {"socket": row["id"], **_sum(number_at(row, "received_bytes"), elapsed_s, None, sender=up)}
    return {"sender": sent | {name: tcp[name] for name in names if name in tcp}, "receiver": received}


def _intervals(details: Mapping[str, Any], rows: list[dict[str, Any]], length_s: float) -> list[dict[str, Any]]:
    made = []
    measured = details.get("intervals_bytes")
    for at, interval in enumerate(measured if isinstance(measured, list) else []):
        span: dict[str, Any] = {"start": at * length_s, "end": (at + 1) * length_s, "seconds": length_s}
        streams = [
            {"socket": row["id"], **span, "bytes": int(moved), "bits_per_second": moved * 8 / length_s}
            for row, moved in zip(rows, interval, strict=False)
        ]
        total = sum(stream["bytes"] for stream in streams)
        whole = span | {"bytes": total, "bits_per_second": total * 8 / length_s}
        made.append({"streams": streams, "sum": whole})
    return made
