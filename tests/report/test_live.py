"""A Run that is being measured, in `hwdyno serve`: its curves, the time left and its hosts, at a bounded cost."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import hostile
import made_run
import made_store as made
import pytest
from browser_page import browser, keep  # noqa: F401
from hwdyno.model.machine import Machine
from hwdyno.model.words import HostShare, Measurement, Run, Value
from hwdyno.report.serve import live
from hwdyno.report.serve.routes import Pages
from hwdyno.system.store import JournalReader, Store, Writer
from test_serve import get, started

DEPTHS = (1, 2, 4, 8, 16, 32)


def header(*names: str, **more: Any) -> Run:
    experiments = [made.experiment(name=name, planned=len(DEPTHS)) for name in names or ("storage.iodepth",)]
    return replace(made.run(*experiments), finished=None, **more)


def point(depth: int, value: float = 0.0) -> Measurement:
    return made.point(depth, value or 2e8 * depth**0.6)


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Store:
    monkeypatch.setattr(live, "SHORTEST_WAIT_S", 0.0)
    monkeypatch.setattr(live, "CPU_SHARE", 1e9)
    return Store(tmp_path)


@pytest.fixture
def writer(store: Store) -> Iterator[Writer]:
    with store.begin(header("storage.iodepth", "storage.write")) as made_writer:
        yield made_writer


RUN = made.run().id


def test_page_grows_with_the_journal(store: Store, writer: Writer) -> None:
    pages = Pages(store, with_names=False)
    first = pages.answer("/live", {"id": RUN})
    assert "0 of 12 points measured" in first.body and "connect-src 'self'" in first.policy
    for depth in DEPTHS[:3]:
        writer.point("storage.iodepth", point(depth), 75.0)
    part = pages.answer("/live/part", {"id": RUN})
    assert "3 of 12 points measured" in part.body and part.body.count('class="plot"') == 1
    assert "3 of 6" in part.body and "0 of 6" in part.body
    (until,) = re.findall(r'data-until="(\d+)"', part.body)
    assert abs(float(until) - time.time() - 75) < 30
    again = pages.answer("/live/part", {"id": RUN})
    assert (again.tag, again.body) == (part.tag, part.body), "nothing new"
    writer.point("storage.write", point(1))
    writer.point("storage.write", point(2))
    more = pages.answer("/live/part", {"id": RUN})
    tags = [re.findall(r'data-tag="(\d+)"', found.body) for found in (part, more)]
    assert tags == [["3"], ["3", "2"]] and more.tag != part.tag


def test_who_has_the_part_already_is_answered_304(store: Store, writer: Writer) -> None:
    server = started(store)
    try:
        status, headers, body = get(server, f"/live/part?id={RUN}")
        assert status == 200 and body
        status, again, body = get(server, f"/live/part?id={RUN}", **{"If-None-Match": headers["etag"]})
        assert (status, body, again["etag"]) == (304, "", headers["etag"])
        writer.point("storage.iodepth", point(1))
        assert get(server, f"/live/part?id={RUN}", **{"If-None-Match": headers["etag"]})[0] == 200
        assert f"/live?id={RUN}" in get(server, "/")[2], "the list of runs leads there"
    finally:
        server.shutdown()
        server.server_close()


def test_run_that_ends_is_its_report_and_no_longer_live(store: Store) -> None:
    pages = Pages(store, with_names=False)
    with store.begin(header()) as writer:
        writer.point("storage.iodepth", point(1))
        assert pages.answer("/live", {"id": RUN}).status == 200
        writer.finish(made.run())
    for path in ("/live", "/live/part"):
        answer = pages.answer(path, {"id": RUN})
        assert answer.status == 404 and "not being measured now" in answer.body
    assert pages.answer("/run", {"id": RUN}).status == 200


@pytest.mark.parametrize("name", ["", "last", "../x", "/etc/passwd", RUN[:8], "\0"])
def test_only_a_run_that_is_being_measured_has_a_live_page(name: str, store: Store, writer: Writer) -> None:
    assert Pages(store, with_names=False).answer("/live/part", {"id": name}).status == 404


def test_hosts_of_a_site_are_listed_without_their_names(store: Store) -> None:
    def machine(name: str) -> Machine:
        return replace(made.run().machine, hostname=name)

    names = ("atlas7", "atlas8")
    shares = [HostShare("atlas7", Value(1e8, "bytes/s"), 1, 1, 1.0, 0.0, 1)]
    shares.append(replace(shares[0], host="atlas8", failure="atlas8 was lost"))
    with store.begin(header(machines=tuple(map(machine, names)))) as writer:
        writer.point("storage.iodepth", replace(point(1), hosts=tuple(shares)))
        body = Pages(store, with_names=False).answer("/live", {"id": RUN}).body
        assert "host-1" in body and "100 MB/s" in body and "host-2 was lost" in body and "atlas" not in body
        assert "atlas8 was lost" in Pages(store, with_names=True).answer("/live", {"id": RUN}).body


@pytest.mark.parametrize("text", [hostile.PAYLOAD, made_run.HOSTILE])
def test_hostile_journal_adds_no_element_of_its_own(text: str, store: Store) -> None:
    run = replace(hostile.wholly_hostile_run(text), id="zz-hostile", finished=None, findings=())
    empty = tuple(replace(result, points=(), curves=(), peers=()) for result in run.experiments)
    with store.begin(replace(run, experiments=empty)) as writer:
        for result in run.experiments:
            for measured in result.points:
                writer.point(result.name, measured)
        answer = Pages(store, with_names=True).answer("/live", {"id": "zz-hostile"})
        assert answer.status == 200 and made_run.HOSTILE not in answer.body and hostile.PAYLOAD not in answer.body


def test_torn_line_waits_until_it_is_whole(store: Store, writer: Writer, tmp_path: Path) -> None:
    writer.point("storage.iodepth", point(1), 9.0)
    whole = writer.path.read_bytes()
    path = tmp_path / "copy.journal"
    reader = JournalReader(path)
    path.write_bytes(whole[:-7])
    assert reader.read_more() and not reader.run.experiments[0].points and reader.left_s is None
    path.write_bytes(whole)
    assert reader.read_more() and len(reader.run.experiments[0].points) == 1 and reader.left_s == 9.0
    assert not reader.read_more() and reader.lost == 0


def test_looking_takes_its_share_of_a_core_and_no_more(
    store: Store, writer: Writer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each look takes 50 ms here: whoever asks more often than every 12.5 s gets what is there."""
    monkeypatch.setattr(live, "CPU_SHARE", 0.004)
    clock = [0.0, 0.0]

    class Clock:
        @staticmethod
        def monotonic() -> float:
            return clock[0]

        @staticmethod
        def thread_time() -> float:
            clock[1] += 0.05
            return clock[1]

    monkeypatch.setattr(live, "time", Clock)
    followed = live.FollowedRun(writer.path, with_names=False)
    looks = 0
    for step in range(300):
        clock[0] = float(step)
        before = clock[1]
        followed.fragment()
        looks += clock[1] > before
    assert looks * 0.05 <= 0.005 * 300 and looks >= 20


# --- in a browser


@pytest.mark.browser
def test_page_follows_a_run_to_its_end(browser: Any, store: Store) -> None:  # noqa: F811
    metrics = {"width": 1100, "height": 900, "deviceScaleFactor": 1, "mobile": False}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)
    server = started(store)
    try:
        with store.begin(header("storage.iodepth", "storage.write")) as writer:
            writer.point("storage.iodepth", point(1), 90.0)
            browser.get_log("browser")
            browser.get(f"{server.url}live?id={RUN}")
            for depth in DEPTHS[1:]:
                writer.point("storage.iodepth", point(depth), 80.0)
            for depth in DEPTHS[:4]:
                writer.point("storage.write", point(depth, 1e8), 60.0)
            wait_for(browser, "document.querySelectorAll('svg.plot').length === 2")
            wait_for(browser, "document.getElementById('left').textContent.includes('left')")
            assert browser.execute_script("return document.querySelectorAll('#live > section').length") == 4
            keep(browser, "serve-live")
            writer.finish(made.run())
        wait_for(browser, f"location.pathname === '/run' && location.search === '?id={RUN}'")
        severe = [entry["message"] for entry in browser.get_log("browser") if entry["level"] == "SEVERE"]
        assert [message for message in severe if "404" not in message] == []
    finally:
        server.shutdown()
        server.server_close()


def wait_for(browser: Any, condition: str) -> None:  # noqa: F811
    until_s = time.monotonic() + 30
    while not browser.execute_script(f"return {condition}"):
        assert time.monotonic() < until_s, condition
        time.sleep(0.05)
