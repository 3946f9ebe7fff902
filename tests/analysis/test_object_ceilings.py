"""The ceilings of an object store: the link in each direction, memory copies on loopback, TLS."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hwdyno.analysis import resources
from hwdyno.analysis.ceilings import object_store
from hwdyno.analysis.ceilings.bounds import find_bound
from hwdyno.model.kernels import OBJECT_REQUESTS
from hwdyno.model.machine import Cpu, Machine
from hwdyno.model.words import ExperimentResult, Measurement, Run
from made_memory import point

LINK = {"interface": "eth0", "interface_bits_s": 1e10, "interface_virtual": False, "interface_mtu_bytes": 1500}
NEAR = {"loopback": True, "interface": "lo", "copy_bytes_s": 2e10}


def request(operation: str, details: dict[str, object]) -> Measurement:
    return replace(point(1e8, operation=operation, object_size=1 << 20), details=details)


def make_run(*points: Measurement) -> tuple[Run, ExperimentResult]:
    machine = Machine(hostname="made", cpu=Cpu(threads=4))
    result = ExperimentResult("object.get", "object", "Reads", "concurrency", OBJECT_REQUESTS, points)
    return Run("id", "2026-01-01T00:00:00+00:00", None, (machine,), "quick", "hwdyno object", (result,)), result


def test_a_link_bounds_each_direction_by_its_payload() -> None:
    found = object_store.of_path(*make_run(request("get", LINK), request("put", LINK), request("head", LINK)))
    assert [ceiling.metric for ceiling in found] == ["object/down", "object/up"]
    assert found[0].kind == "physical" and found[0].value == pytest.approx(1.25e9 * 1460 / 1538)


def test_copies_bound_a_store_on_loopback() -> None:
    (ceiling,) = object_store.of_path(*make_run(request("range", NEAR)))
    assert (ceiling.kind, ceiling.value) == ("reference", 2e10 * 4 / 2)


def test_our_stream_bounds_a_store_on_loopback() -> None:
    (ceiling,) = object_store.of_path(*make_run(request("range", {**NEAR, "loopback_bytes_cpu_s": 3e9})))
    assert (ceiling.kind, ceiling.value, ceiling.label) == ("reference", 4 * 3e9, "TCP over loopback")
    assert ceiling.formula == "3,000 MB/s in a second of CPU time of both ends x 4 processors = 12.0 GB/s"


TLS = {"tls_suite": "TLS13_AES_256_GCM_SHA384", "tls_bytes_cpu_s": 4e9}


def test_both_ends_encrypt_on_loopback() -> None:
    (ceiling,) = object_store.of_path(*make_run(request("get", {**NEAR, **TLS, "loopback_bytes_cpu_s": 2e9})))
    assert (ceiling.value, ceiling.label) == (pytest.approx(4 * 1e9), "TCP and TLS over loopback")
    assert ceiling.formula == (
        "1 / (1 / 2,000 MB/s by TCP + 2 / 4,000 MB/s by TLS) in a second of CPU time of both ends x 4 processors = "
        "4,000 MB/s"
    )
    assert "by TLS13_AES_256_GCM_SHA384" in ceiling.source


def test_the_clients_threads_encrypt_on_a_fast_link() -> None:
    fast = {**LINK, **TLS, "interface_bits_s": 1e11, "loopback": False, "client_threads": 2}
    link, tls = object_store.of_path(*make_run(with_concurrency(4, fast)))
    assert (link.kind, tls.kind, tls.label, tls.value) == ("physical", "reference", "TLS", 8e9)
    assert tls.formula == "2 threads x 4,000 MB/s = 8,000 MB/s"
    assert find_bound(tls, {"operation": "get", "concurrency": 4}) is not None
    assert find_bound(tls, {"operation": "get", "concurrency": 8}) is None
    # A slow link is below it.
    assert len(object_store.of_path(*make_run(with_concurrency(4, {**fast, "interface_bits_s": 1e10})))) == 1


@pytest.mark.parametrize(
    ("axis", "direction"), [("accelerators", "down"), ("threads", "down"), ("ranks", "turns"), ("users", "both")]
)
def test_tls_bounds_what_uses_a_store_as_files(axis: str, direction: str) -> None:
    """Each rank, user or reader has a thread; more threads than processors encrypt no faster."""
    for threads, formula in ((2, "2 threads x 1,000 MB/s"), (64, "4 processors x 1,000 MB/s")):
        details = {**LINK, **TLS, "tls_bytes_cpu_s": 1e9, "interface_bits_s": 1e11, "loopback": False,
                   "client_threads": threads}  # fmt: skip
        made = replace(point(1e8, **{axis: threads}), details=details)
        link, tls = object_store.of_path(*make_run(made))
        assert (link.metric, tls.metric) == (f"object/{direction}", f"object/{direction}/{threads}")
        assert tls.label == "TLS" and tls.formula.startswith(formula) and tls.value == min(threads, 4) * 1e9
        assert find_bound(tls, {axis: threads}) is not None and find_bound(tls, {axis: threads + 1}) is None
    near = {**NEAR, **TLS, "loopback_bytes_cpu_s": 2e9, "client_threads": 2}
    (ceiling,) = object_store.of_path(*make_run(replace(point(1e8, **{axis: 2}), details=near)))
    assert (ceiling.metric, ceiling.label) == (f"object/{direction}", "TCP and TLS over loopback")


FAR = {**LINK, "loopback": False, "rtt_min_us": 1000.0, "window_bytes": 1e5}


def with_concurrency(count: int, details: dict[str, object]) -> Measurement:
    made = request("get", details)
    return replace(made, parameters={**made.parameters, "concurrency": count})


def test_windows_bound_their_own_number_of_connections() -> None:
    points = [with_concurrency(count, FAR) for count in (1, 4, 64)]
    link, single, four = object_store.of_path(*make_run(*points))
    assert (link.metric, single.metric, single.value, four.value) == ("object/down", "object/down/1", 1e8, 4e8)
    assert four.formula == "4 connections x 100 kB / 1.00 ms = 400 MB/s" and four.kind == "reference"
    assert find_bound(four, {"operation": "range", "concurrency": 4}) is not None
    assert find_bound(four, {"operation": "get", "concurrency": 8}) is None
    assert find_bound(four, {"operation": "put", "concurrency": 4}) is None
    # 64 windows hold more than the link carries; on loopback and for a connection for each request there is no law.
    for details in ({**FAR, "loopback": True}, {**FAR, "window_bytes": 0.0}):
        assert not [ceiling for ceiling in object_store.of_path(*make_run(with_concurrency(1, details)))
                    if ceiling.label == "TCP windows"]  # fmt: skip


def test_hosts_have_a_link_each() -> None:
    run, result = make_run(request("get", LINK))
    two = replace(run, machines=(*run.machines, replace(run.machine, hostname="other")))
    assert object_store.of_path(two, result)[0].value == pytest.approx(2 * 1.25e9 * 1460 / 1538)


def test_a_ceiling_bounds_its_direction_alone() -> None:
    (ceiling,) = object_store.of_path(*make_run(request("get", LINK)))
    assert find_bound(ceiling, {"operation": "range"}) is not None
    assert find_bound(ceiling, {"operation": "put"}) is None and find_bound(ceiling, {"operation": "list"}) is None


def test_nothing_is_known_of_another_path() -> None:
    assert object_store.of_path(*make_run(request("get", {"interface": "tun0", "interface_virtual": True}))) == ()


def test_a_store_is_measured_only_where_it_is_named() -> None:
    assert not resources.find("object").by_default
