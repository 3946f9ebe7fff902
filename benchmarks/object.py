"""An object store's client against others at versitygw, against our own TCP receive loop, and at our null server.

The goals of CPU time were set on a machine where obstore 0.12.1 took 0.50 s a GB and 212 µs a small get.
"""

from __future__ import annotations

import contextlib
import json
import os
import resource
import secrets
import shutil
import socket
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from hwdyno.analysis.estimates import median_interval
from hwdyno.model.histogram import Histogram
from hwdyno.model.kernels import (
    NETWORK_LATENCY,
    NETWORK_THROUGHPUT,
    OBJECT_LAYOUT,
    OBJECT_REMOVAL,
    OBJECT_REQUESTS,
)

from benchmarks import Bench, BenchError, BenchmarkRow, Parameters, Reading, Target, make_row

BUCKET = "bench"
KEYS = {"AWS_ACCESS_KEY_ID": "hwdyno", "AWS_SECRET_ACCESS_KEY": secrets.token_hex(16), "AWS_REGION": "us-east-1"}
START_S = 30.0
CONTROL = Path("/proc/sys/net/ipv4/tcp_congestion_control")
TAIL, SMALL_GET_US = Target(at_most=5), Target(at_most=25)
TAIL_CONNECTIONS, TAIL_THREADS = 1024, 2
FAST = Target(at_least=3.3e9)
"""Three times what one process of s3dlio moved (mlcommons/storage#701)."""
MEMORY_CONNECTIONS, MEMORY = 1024, Target(at_most=200e6)


@dataclass(frozen=True)
class Case:
    """Gets of one size, with the unit of their cost and its goals."""

    title: str
    gets: Parameters
    unit: str
    scale: float
    """Seconds of CPU time a byte or a get, in the unit."""
    by_bytes: bool
    goal: Target
    """The bounds of our cost, in the unit."""
    floor: tuple[str, Parameters]
    """The kernel of the least that such gets can cost, with its parameters."""


CASES = (
    Case(
        "CPU time a GB, gets of 8 MiB, 8 in flight", {"object_size": 8 << 20, "concurrency": 8, "objects": 32}, "s",
        1e9, True, Target(at_most=0.16), (NETWORK_THROUGHPUT, {"direction": "down", "block": 256 << 10}),
    ),
    Case(
        "CPU time a get of 4 KiB, 16 in flight", {"object_size": 4096, "concurrency": 16, "objects": 256}, "µs",
        1e6, False, Target(at_most=45), (NETWORK_LATENCY, {"message": 4096}),
    ),
)  # fmt: skip
_FRAME = """
import json, os, resource, sys, time
given = json.loads(sys.argv[1])
found = [0, 0]
def count(data):
    found[0] += 1
    found[1] += len(data)
{client}
read(0.2)
found[:] = 0, 0
before = resource.getrusage(resource.RUSAGE_SELF)
read(given["runtime"])
after = resource.getrusage(resource.RUSAGE_SELF)
print(json.dumps([*found, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime]), flush=True)
os._exit(0)  # obstore's threads abort some of its exits.
"""
_OBSTORE = """
import asyncio
import obstore
from obstore.store import S3Store
store = S3Store(given["bucket"], prefix=given["prefix"], endpoint=given["endpoint"], virtual_hosted_style_request=False,
                client_options={"allow_http": True})
keys = [found["path"] for page in obstore.list(store) for found in page if found["size"] == given["object_size"]]
loop = asyncio.new_event_loop()
async def reader(number, until):
    at = number
    while time.perf_counter() < until:
        count(await (await obstore.get_async(store, keys[at % len(keys)])).bytes_async())
        at += given["concurrency"] + 1
async def read_all(until):
    await asyncio.gather(*(reader(number, until) for number in range(given["concurrency"])))
def read(seconds):
    loop.run_until_complete(read_all(time.perf_counter() + seconds))
"""
_BOTO3 = """
import threading
import boto3
from botocore.config import Config
config = Config(max_pool_connections=given["concurrency"], s3={"addressing_style": "path"})
client = boto3.client("s3", endpoint_url=given["endpoint"], config=config)
pages = client.get_paginator("list_objects_v2").paginate(Bucket=given["bucket"], Prefix=given["prefix"])
keys = [found["Key"] for page in pages for found in page["Contents"] if found["Size"] == given["object_size"]]
def reader(number, until):
    at = number
    while time.perf_counter() < until:
        count(client.get_object(Bucket=given["bucket"], Key=keys[at % len(keys)])["Body"].read())
        at += given["concurrency"] + 1
def read(seconds):
    until = time.perf_counter() + seconds
    threads = [threading.Thread(target=reader, args=(number, until)) for number in range(given["concurrency"])]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
"""
_S3DLIO = """
os.environ["AWS_ENDPOINT_URL"] = given["endpoint"]
import s3dlio
folder = f"s3://{given['bucket']}/{given['prefix']}get-{given['object_size']}-"
uris = [f"{folder}{number:08}" for number in range(given["objects"])]
at = 0
def read(seconds):
    global at
    until, batch = time.perf_counter() + seconds, 4 * given["concurrency"]
    while time.perf_counter() < until:
        wanted = [uris[number % len(uris)] for number in range(at, at + batch)]
        for _, data in s3dlio.get_many(wanted, max_in_flight=given["concurrency"]):
            count(data)
        at += batch
"""
PEERS = {"obstore": _OBSTORE, "boto3": _BOTO3, "s3dlio": _S3DLIO}
"""The other clients by their package, each with a program that defines ``read(seconds)``."""


def measure(bench: Bench) -> Iterator[BenchmarkRow]:
    """Yield every row as it is measured: first those that need nothing but us."""
    null: Parameters = {"runtime": bench.runtime_s, "object_size": 4096, "client_threads": TAIL_THREADS}
    bench.says("object: the null server")
    tails = _repeat(bench, {**null, "concurrency": TAIL_CONNECTIONS}, _tail)
    yield _figure(f"p99 over p50 of {TAIL_CONNECTIONS:,} connections on {TAIL_THREADS} threads", "x", tails, TAIL)
    _, small = CASES
    costs = _repeat(bench, {**null, **small.gets, "client_threads": 1}, lambda reading: _cost(reading, small))
    yield _figure(small.title, small.unit, costs, SMALL_GET_US)
    rates = _repeat(bench, {**null, "object_size": 8 << 20, "concurrency": 8}, _bytes_s)
    yield _figure("one process, 2 threads, gets of 8 MiB", "bytes/s", rates, FAST)
    bench.run(OBJECT_REQUESTS, {**null, "object_size": 64 << 20, "concurrency": MEMORY_CONNECTIONS})
    peak = 1024.0 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    title = f"memory of this process, gets of 64 MiB, {MEMORY_CONNECTIONS:,} in flight"
    yield BenchmarkRow(title, "bytes", peak, target=MEMORY)
    with _store(bench) as endpoint:
        for case in CASES:
            yield from _compare(bench, case, endpoint)


def _compare(bench: Bench, case: Case, endpoint: str) -> Iterator[BenchmarkRow]:
    """Our cost over each other client's, and over the floor's, in turn on the same objects."""
    bench.says(f"object: {case.title}")
    place: Parameters = {"endpoint": endpoint, "bucket": BUCKET, "prefix": f"hwdyno-{secrets.token_hex(8)}/"}
    objects = {name: case.gets[name] for name in ("object_size", "objects")}
    given = {**place, **case.gets, "runtime": bench.runtime_s}
    kernel, least = case.floor
    peers = _find_peers(bench)
    bench.run(OBJECT_LAYOUT, {**place, **objects})
    try:
        found = [
            {
                "": _cost(bench.run(OBJECT_REQUESTS, given), case),
                **{peer: _measure_peer(peer, python, given, case) for peer, python in peers.items()},
                "our TCP alone": _cost(bench.run(kernel, {**least, "runtime": bench.runtime_s}), case),
            }
            for _ in range(bench.pairs)
        ]
    finally:
        bench.run(OBJECT_REMOVAL, place)
    # What bbr paces is sent by timers, which on loopback take their time from the client.
    control = CONTROL.read_text().strip()
    yield _figure(case.title, case.unit, [costs[""] for costs in found], case.goal, at=f"versitygw, {control}")
    for other in (*peers, "our TCP alone"):
        yield make_row(f"{case.title} | {other}", case.unit, [(costs[""], costs[other]) for costs in found])


def _cost(reading: Reading, case: Case) -> float:
    """CPU time of our end, by the bytes or by the operations."""
    details, cpu = reading["details"], reading["cpu"]
    spent = float(details.get("cpu_here_s") or cpu["user_s"] + cpu["system_s"])
    counts = [stream["bytes" if case.by_bytes else "operations"] for stream in reading["streams"]]
    return spent / max(1, sum(counts)) * case.scale


def _find_peers(bench: Bench) -> dict[str, str]:
    """The Python of each other client that is installed: this one, or that of ``HWDYNO_OBSTORE`` and the like."""
    found = {peer: os.environ.get(f"HWDYNO_{peer.upper()}") or sys.executable for peer in PEERS}
    for peer, python in list(found.items()):
        tried = [python, "-c", f"import {peer}"]
        if not shutil.which(python) or subprocess.run(tried, capture_output=True).returncode:
            bench.says(f"object: no {peer}: pip install {peer}, or HWDYNO_{peer.upper()}=/a/python/that/has/it")
            del found[peer]
    return found


def _measure_peer(peer: str, python: str, given: Parameters, case: Case) -> float:
    program = _FRAME.replace("{client}", PEERS[peer])
    done = subprocess.run(
        [python, "-c", program, json.dumps(given)], env={**os.environ, **KEYS}, capture_output=True, text=True
    )
    if done.returncode:
        raise BenchError(f"{peer}: {(done.stderr.strip().splitlines() or [f'status {done.returncode}'])[-1]}")
    gets, bytes_, cpu_s = json.loads(done.stdout)
    return float(cpu_s) / max(1, bytes_ if case.by_bytes else gets) * case.scale


def _repeat(bench: Bench, given: Parameters, figure: Callable[[Reading], float]) -> list[float]:
    return [figure(bench.run(OBJECT_REQUESTS, given)) for _ in range(bench.pairs)]


def _tail(reading: Reading) -> float:
    (stream,) = reading["streams"]
    latency = Histogram.from_reading(stream["latency_ns"]["total"])
    return latency.quantile(0.99) / latency.quantile(0.5)


def _bytes_s(reading: Reading) -> float:
    return float(sum(stream["bytes"] for stream in reading["streams"])) / float(reading["elapsed_s"])


def _figure(title: str, unit: str, values: list[float], target: Target, *, at: str = "null server") -> BenchmarkRow:
    low, high = median_interval(values)
    return BenchmarkRow(f"{at}: {title}", unit, statistics.median(values), low=low, high=high, target=target)


@contextlib.contextmanager
def _store(bench: Bench) -> Iterator[str]:
    """The URL of versitygw over a folder of the storage, with an empty bucket."""
    program = os.environ.get("HWDYNO_VERSITYGW") or shutil.which("versitygw")
    if not program:
        raise BenchError("versitygw is not here: install it (docs/dev/peers.md), or name it by HWDYNO_VERSITYGW")
    folder = bench.directory / "buckets"
    (folder / BUCKET).mkdir(parents=True)
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = int(probe.getsockname()[1])
    keys = {"ROOT_ACCESS_KEY_ID": KEYS["AWS_ACCESS_KEY_ID"], "ROOT_SECRET_ACCESS_KEY": KEYS["AWS_SECRET_ACCESS_KEY"]}
    os.environ.update(KEYS)
    serving = subprocess.Popen(
        [program, f"--port=127.0.0.1:{port}", "--keep-alive", "--quiet", "posix", str(folder)],
        env={**os.environ, **keys}, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    try:
        _wait_for(port)
        yield f"http://127.0.0.1:{port}"
    finally:
        serving.kill()
        serving.wait()


def _wait_for(port: int) -> None:
    end = time.monotonic() + START_S
    while time.monotonic() < end:
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.05)
    raise BenchError(f"versitygw did not listen within {START_S:.0f} s")
