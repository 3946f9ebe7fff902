"""What a dry run says of an object store's requests and their cost at given prices."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest
from hwdyno.cli.main import main
from hwdyno.measure.scenarios import object_prices
from hwdyno.model.machine import Machine, Nic
from hwdyno.model.words import UserError

LINK = 1.25e9
STORE = ("object", "--endpoint", "http://10.0.0.2:9000", "--bucket", "bench", "--dry-run")


@pytest.mark.parametrize("text", ["put", "put=", "put=x", "put=-1", "put=nan", "put=1,put=2", "post=1", "=1", "put=1,"])
def test_a_wrong_price_is_refused_in_one_line(text: str) -> None:
    with pytest.raises(UserError, match=r"--price [^\n]*names: get, put, head, list, delete, out") as refused:
        object_prices.parse_prices(text)
    assert "\n" not in str(refused.value)


def test_prices_are_read_by_name() -> None:
    assert object_prices.parse_prices("put=0.005, get=4e-4,out=0") == {"put": 0.005, "get": 4e-4, "out": 0.0}


@pytest.mark.parametrize(("operation", "more", "requests", "up", "down"), [
    # 16 in flight for 10 s of 1 ms each, besides those in flight as two readings end; a HEAD before each reading.
    ("head", {}, {"head": 160_000 + 32 + 2}, 0, 0),
    ("get", {"object_size": 1000}, {"get": 160_032, "head": 2}, 0, 160_032_000),
    # The link has room for 125 objects of 10 MB a second.
    ("get", {"object_size": 10_000_000}, {"get": 1250 + 32, "head": 2}, 0, 12_820_000_000),
    ("put", {"object_size": 10_000_000}, {"put": 1282, "get": 2}, 12_820_000_000, 0),
    ("range", {"range_size": 1000}, {"get": 160_032, "head": 2}, 0, 160_032_000),
    ("get", {"object_size": 1000, "rate": 5.0}, {"get": 50 + 32, "head": 2}, 0, 82_000),
    ("list", {"objects": 64}, {"list": 160_034}, 0, 160_032 * 32_000),
    # The link has room for 62.5 objects of 20 MB a second; each is 4 parts of 5 MiB, besides its beginning and its end.
    ("multipart", {"object_size": 20_000_000, "part_size": 5 << 20}, {"put": 6 * 657, "get": 2}, 657 * 20_000_000, 0),
    ("mixed", {"object_size": 1000, "mix": "get=75,put=25"}, {"get": 120_024 + 2, "put": 40_008},
     40_008_000, 120_024_000),
    ("delete", {"objects": 64, "object_size": 10}, {"delete": 128, "put": 128, "get": 2}, 1280, 0),
    ("get", {"objects": 64, "object_size": 10, "visit": "first"}, {"get": 128, "put": 128, "head": 2}, 1280, 1280),
    ("get", {"objects": 64, "object_size": 10, "visit": "second"}, {"get": 256, "put": 128, "head": 2}, 1280, 2560),
])  # fmt: skip
def test_each_operation_has_its_requests_and_bytes(
    operation: str, more: dict[str, float], requests: dict[str, int], up: float, down: float
) -> None:
    point = {"operation": operation, "concurrency": 16, "object_size": 8 << 20, **more}
    counted, sent, received = object_prices.count_requests(point, 10.0, 2, LINK)
    assert dict(counted) == requests
    assert (sent, received) == (up, down)


def test_the_fastest_link_that_is_up_bounds_the_bytes() -> None:
    nics = (Nic("a", bits_s=1e9, up=True), Nic("b", bits_s=10e9, up=True), Nic("c", bits_s=1e12, up=False))
    assert object_prices.find_link(replace(Machine.of_survey({}), nics=nics)) == LINK
    assert object_prices.find_link(Machine.of_survey({})) == object_prices.UNKNOWN_LINK_BYTES_S


def test_a_dry_run_has_requests_bytes_and_cost(capsys: pytest.CaptureFixture[str]) -> None:
    words = ("--operation", "get,list", "--object-size", "4k", "--concurrency", "1", "--runtime", "1", "--objects", "8")
    assert main([*STORE, *words, "--price", "put=5,get=1000,out=0"]) == 0
    *_, requests, cost = capsys.readouterr().out.splitlines()
    shown = re.match(r"requests: up to [\d.]+ k \(get ([\d.]+) k, put 18, .* in and .* out$", requests)
    assert shown, requests
    priced = re.match(r"cost: up to ([\d,.]+) \(put 0\.09, get ([\d,.]+), out 0\.00\); without a price: (.*)$", cost)
    assert priced and priced[3] == "head, list, delete", cost
    total, of_gets = (float(amount.replace(",", "")) for amount in priced.groups()[:2])
    assert total == pytest.approx(of_gets + 0.09) and of_gets == pytest.approx(1000 * float(shown[1]), rel=0.01)


def test_a_price_is_for_a_dry_run_alone(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*STORE[:-1], "--price", "put=1"]) == 2
    assert "--price counts what a dry run would cost; add --dry-run" in capsys.readouterr().err
    assert main([*STORE, "--price", "put=lots"]) == 2
    assert "--price put=lots: prices are NAME=AMOUNT" in capsys.readouterr().err
