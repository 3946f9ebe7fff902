"""`hwdyno serve`: its pages in headless Chromium, and that it only reads, for this machine, any request."""

from __future__ import annotations

import http.client
import random
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import hostile
import made_history as history
import made_run
import pytest
from browser_page import KEPT, browser  # noqa: F401
from hwdyno.report.serve import http_server as serving
from hwdyno.report.serve import routes
from hwdyno.report.serve.routes import Pages
from hwdyno.system.store import Store
from test_fleet import stored

SECRETS = ("atlas7", "SECRET77", "alice")


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Store:
    found = Store(tmp_path_factory.mktemp("runs"))
    for run in history.make_runs(
        24,
        lambda at, figure: 0.9 if at >= 14 and figure < 6 else 1.0,
        survey=lambda at: history.LATER if at >= 14 else history.SURVEY,
    ):
        found.save(run)
    for run in history.make_runs(3, lambda at, figure: 1.4, survey=lambda _: {"hostname": "node2"}, name="n"):
        found.save(run)
    found.save(replace(made_run.whole_run(), id="full-run"))
    found.save(replace(hostile.wholly_hostile_run(), id="zz-hostile"))
    found.save(replace(hostile.wholly_hostile_run(made_run.HOSTILE), id="zz-markup"))
    return found


def started(store: Store, *, with_names: bool = False, has_metrics: bool = False) -> serving.PageServer:
    pages = Pages(store, with_names=with_names, has_metrics=has_metrics)
    server = serving.PageServer("127.0.0.1", 0, pages.answer)
    threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()
    return server


@pytest.fixture(scope="module")
def server(store: Store) -> Iterator[serving.PageServer]:
    made = started(store)
    yield made
    made.shutdown()
    made.server_close()


def get(server: serving.PageServer, path: str, method: str = "GET", **headers: str) -> tuple[int, dict[str, str], str]:
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=60)
    connection.request(method, path, headers=headers)
    answer = connection.getresponse()
    body = answer.read().decode()
    connection.close()
    return answer.status, {name.lower(): value for name, value in answer.getheaders()}, body


def raw(server: serving.PageServer, data: bytes, wait_s: float = 30.0) -> bytes:
    with socket.create_connection(("127.0.0.1", server.port), timeout=wait_s) as client:
        received = b""
        try:
            client.sendall(data)
            client.shutdown(socket.SHUT_WR)
            while part := client.recv(65536):
                received += part
        except ConnectionError:
            pass
        return received


PAGES = (
    "/",
    "/?machine=machine-1",
    "/run?id=full-run",
    "/run?id=r-014",
    "/run?id=zz-hostile",
    "/run?id=zz-markup",
    "/trends?machine=machine-3",
    "/trends?machine=machine-5",
    "/trends",
    "/compare",
    "/compare?before=r-013",
    "/compare?before=r-013&after=r-014",
    "/fleet",
)


@pytest.mark.parametrize("path", PAGES)
def test_every_page_is_whole_guarded_and_without_names(path: str, server: serving.PageServer) -> None:
    status, headers, body = get(server, path)
    assert status == 200 and body.rstrip().endswith("</html>") and '<nav class="places"' in body
    policy = headers["content-security-policy"]
    assert policy.startswith("default-src 'none'; script-src 'sha256-") and "frame-ancestors 'none'" in policy
    assert "unsafe-eval" not in policy and "script-src 'unsafe" not in policy
    assert headers["x-content-type-options"] == "nosniff" and headers["cache-control"] == "no-store"
    assert [secret for secret in SECRETS if secret in body] == []
    assert made_run.HOSTILE not in body
    assert get(server, path, "HEAD")[2] == ""


def test_runs_stand_by_when_they_started_and_not_by_their_ids(tmp_path: Path) -> None:
    store = Store(tmp_path)
    (older, newer) = history.make_runs(2, lambda at, figure: 1.0)
    store.save(replace(older, id="z-imported"))
    store.save(replace(newer, id="a-measured"))
    server = started(store)
    try:
        for path in ("/", "/compare"):
            body = get(server, path)[2]
            assert 0 < body.index("a-measured") < body.index("z-imported"), path
    finally:
        server.shutdown()
        server.server_close()


def test_trends_date_and_explain_changes(server: serving.PageServer) -> None:
    words = [get(server, f"/trends?machine=machine-{at}")[2] for at in range(1, 6)]
    (body,) = [word for word in words if "6 slower by" in word.replace("\u00a0", " ")]
    assert "governor performance" in body and "/compare?before=r-013&amp;after=r-014" in body


def test_names_are_shown_where_they_are_asked_for(store: Store) -> None:
    server = started(store, with_names=True)
    try:
        assert "atlas7" in get(server, "/")[2] and "atlas7" in get(server, "/run?id=r-000")[2]
    finally:
        server.shutdown()
        server.server_close()


@pytest.mark.parametrize(
    "path",
    [
        "/etc/passwd", "/../../etc/passwd", "/%2e%2e/%2e%2e/etc/passwd", "/run?id=../../../etc/passwd", "/run?id=",
        "/run?id=/etc/passwd.json", "/run?id=last", "/compare?before=../x&after=y", "/run", "//etc/passwd",
        "/index.sqlite", "/run?id=%00", "/run?id=r-01",
    ],
)  # fmt: skip
def test_no_path_is_a_file(path: str, server: serving.PageServer) -> None:
    status, _, body = get(server, path)
    assert status == 404 and "root:x:0" not in body


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "PATCH", "OPTIONS", "TRACE", "CONNECT"])
def test_it_only_reads(method: str, server: serving.PageServer) -> None:
    assert get(server, "/", method)[0] == 501


@pytest.mark.parametrize("host", ["evil.example", "evil.example:80", "127.0.0.1.evil.example", "", "localhost@evil"])
def test_rebound_name_is_rejected(host: str, server: serving.PageServer) -> None:
    status, _, body = get(server, "/", Host=host)
    assert status == 421 and "Runs" not in body


def test_malformed_requests_are_refused_and_the_next_is_answered(server: serving.PageServer) -> None:
    line = b"GET / HTTP/1.1\r\n"
    host = f"Host: 127.0.0.1:{server.port}\r\n".encode()
    assert b" 414 " in raw(server, b"GET /" + b"a" * 70_000 + b" HTTP/1.1\r\n" + host + b"\r\n")
    assert b" 431 " in raw(server, line + host + b"X: " + b"a" * 70_000 + b"\r\n\r\n")
    assert b" 431 " in raw(server, line + host + b"".join(b"X-%d: a\r\n" % at for at in range(200)) + b"\r\n")
    assert b" 421 " in raw(server, line + host + host + b"\r\n")
    assert b" 400 " in raw(
        server, b"GET /?" + b"&".join(b"a=%d" % at for at in range(50)) + b" HTTP/1.1\r\n" + host + b"\r\n"
    )
    assert get(server, "/")[0] == 200


def test_any_bytes_leave_it_serving(server: serving.PageServer) -> None:
    """Random bytes, and requests with random bytes put in: each is answered or cut, and no page is lost."""
    rng = random.Random(7)
    seed = f"GET /run?id=full-run&x=%e2%28 HTTP/1.1\r\nHost: 127.0.0.1:{server.port}\r\nA: b\r\n\r\n".encode()
    for _ in range(300):
        data = bytearray(seed if rng.random() < 0.8 else rng.randbytes(rng.randrange(200)))
        for _ in range(rng.randrange(1, 6)):
            at = rng.randrange(len(data) + 1)
            data[at : at + rng.randrange(3)] = rng.randbytes(rng.randrange(4))
        answer = raw(server, bytes(data))
        assert b"Traceback" not in answer and b" 500 " not in answer.split(b"\r\n", 1)[0]
    assert get(server, "/")[0] == 200


def test_slow_clients_are_cut_and_do_not_keep_others_out(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(serving, "REQUEST_S", 1.0)
    server = started(store)
    try:
        slow = [socket.create_connection(("127.0.0.1", server.port)) for _ in range(serving.MAX_AT_ONCE)]
        for client in slow:
            client.sendall(b"GET / HT")
        deadline = time.monotonic() + 30
        while (status := answered(server)) != 200 and time.monotonic() < deadline:
            for client in slow:  # A byte now and then does not help them.
                with suppress(OSError):
                    client.send(b"x")
            time.sleep(0.1)
        assert status == 200
        for client in slow:
            client.close()
    finally:
        server.shutdown()
        server.server_close()


def test_silent_clients_keep_no_one_out(server: serving.PageServer) -> None:
    silent = [socket.create_connection(("127.0.0.1", server.port)) for _ in range(serving.MAX_SILENT + 8)]
    try:
        assert get(server, "/")[0] == 200
        assert silent[0].recv(1) == b"", "the one that was silent for longest is cut"
    finally:
        for client in silent:
            client.close()


def test_a_page_that_is_being_made_holds_up_no_other(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    making, go_on = threading.Event(), threading.Event()

    def slow(*_: object) -> str:
        making.set()
        assert go_on.wait(30)
        return "made"

    monkeypatch.setattr(Pages, "_render_run", slow)
    server = started(store)
    try:
        reader = threading.Thread(target=get, args=(server, "/run?id=full-run"))
        reader.start()
        assert making.wait(30)
        assert get(server, "/")[0] == 200 and get(server, "/trends")[0] == 200
        go_on.set()
        reader.join(30)
    finally:
        go_on.set()
        server.shutdown()
        server.server_close()


def test_a_large_run_is_rendered_apart_and_looks_the_same(
    store: Store, server: serving.PageServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = get(server, "/run?id=full-run")[2]
    monkeypatch.setattr(routes, "LARGE_BYTES", 0)
    another = started(store)
    try:
        assert get(another, "/run?id=full-run")[2] == whole
    finally:
        another.shutdown()
        another.server_close()


def answered(server: serving.PageServer) -> int:
    try:
        return get(server, "/")[0]
    except (OSError, http.client.HTTPException):
        return 0


def test_a_run_that_is_added_is_shown_and_a_spoilt_one_hides_none(tmp_path: Path) -> None:
    store = Store(tmp_path)
    server = started(store)
    try:
        assert "No runs are stored" in get(server, "/")[2]
        assert all(get(server, path)[0] == 200 for path in ("/trends", "/fleet", "/compare"))
        store.save(made_run.whole_run())
        (store.runs / "spoilt.json").write_text("{")
        assert made_run.whole_run().id in get(server, "/")[2] and get(server, "/fleet")[0] == 200
    finally:
        server.shutdown()
        server.server_close()


def test_program_serves_until_it_is_interrupted(store: Store) -> None:
    command = [sys.executable, "-m", "hwdyno", "serve", "--port", "0", "--store", str(store.directory)]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as program:
        try:
            assert program.stderr is not None
            first = program.stderr.readline()
            url = first.split()[1].rstrip(";")
            assert url.startswith("http://127.0.0.1:")
            port = int(url.rstrip("/").rsplit(":", 1)[1])
            connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
            connection.request("GET", "/fleet")
            assert connection.getresponse().status == 200
        finally:
            program.send_signal(signal.SIGINT)
            program.wait(30)
    assert program.returncode == 130


def test_taken_port_is_one_line(server: serving.PageServer, capsys: pytest.CaptureFixture[str]) -> None:
    from hwdyno.cli.main import main

    assert main(["serve", "--port", str(server.port)]) == 2
    assert "already in use; name another --port" in (says := capsys.readouterr().err) and says.count("\n") == 1


@pytest.mark.parametrize("address", ["300.1.1.1", "192.0.2.1"])
def test_an_address_of_another_machine_is_no_matter_of_the_port(
    address: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    from hwdyno.cli.main import main

    assert main(["serve", "--listen", address, "--store", str(tmp_path)]) == 2
    says = capsys.readouterr().err
    assert says.endswith("; name an address of this machine by --listen\n") and says.count("\n") == 1


# --- in a browser


KINDS = ("/", "/run?id=full-run", "/trends", "/compare?before=r-013&after=r-014", "/fleet")
"""A page of each kind; the others differ by what fills them, which a phone is too narrow for first."""


def list_windows() -> Iterator[Any]:
    """Every page on a phone, and those of each kind on a desk; all of them there in ``make test-long``."""
    for path in PAGES:
        yield 390, "light", path
        yield pytest.param(1280, "dark", path, marks=() if path in KINDS else pytest.mark.long)
        yield pytest.param(1280, "light", path, marks=pytest.mark.long)


@pytest.mark.browser
@pytest.mark.parametrize(("width", "scheme", "path"), list(list_windows()))
def test_pages_in_a_browser(width: int, scheme: str, path: str, browser: Any, server: serving.PageServer) -> None:  # noqa: F811
    metrics = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": width < 500}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)
    features = [{"name": "prefers-color-scheme", "value": scheme}]
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": features})
    browser.get_log("browser")
    browser.get(server.url.rstrip("/") + path)
    assert browser.execute_script("return document.documentElement.scrollWidth") <= width
    top = "return document.querySelector(arguments[0]).getBoundingClientRect().top"
    assert browser.execute_script(top, ".places") < browser.execute_script(top, "main section"), "the menu comes first"
    assert [message for message in browser.get_log("browser") if message["level"] == "SEVERE"] == []
    links = browser.execute_script("return [...document.querySelectorAll('.places a')].map(one => one.textContent)")
    assert links == ["Runs", "Trends", "Compare", "Fleet"]
    KEPT.mkdir(parents=True, exist_ok=True)
    name = "".join(letter if letter.isalnum() else "-" for letter in path.strip("/")) or "runs"
    browser.save_screenshot(str(KEPT / f"serve-{name}-{width}-{scheme}.png"))


@pytest.mark.browser
def test_reader_goes_from_runs_to_comparison(browser: Any, server: serving.PageServer) -> None:  # noqa: F811
    from selenium.webdriver.common.by import By

    browser.execute_cdp_cmd(
        "Emulation.setDeviceMetricsOverride", {"width": 1280, "height": 900, "deviceScaleFactor": 1, "mobile": False}
    )
    browser.get(server.url)
    browser.find_element(By.LINK_TEXT, "Compare").click()
    browser.find_element(By.CSS_SELECTOR, "a[href='/compare?before=r-013']").click()
    browser.find_element(By.CSS_SELECTOR, "a[href='/compare?before=r-013&after=r-014']").click()
    assert "r-013" in browser.find_element(By.TAG_NAME, "h1").text
    assert browser.find_elements(By.CSS_SELECTOR, "svg.plot, .plot")
    browser.find_element(By.LINK_TEXT, "Fleet").click()
    assert browser.find_element(By.TAG_NAME, "h1").text == "Fleet"


def test_fleet_hides_names_of_slow_node(tmp_path: Path) -> None:
    server = started(stored(tmp_path / "store", 7))
    try:
        body = get(server, "/fleet")[2].replace("\u00a0", " ")
        assert "1 of 10 nodes is slow" in body and "machine-8</a>: Storage 50% slower" in body
        assert "ext4 → xfs" in body and "bench-7" not in body
    finally:
        server.shutdown()
        server.server_close()


def test_fleet_counts_machines_that_it_shows(tmp_path: Path) -> None:
    """Runs that name no host are one machine, and one that cannot be judged is counted apart."""
    store = Store(tmp_path / "runs")
    for number in range(1, 7):
        for run in history.make_runs(2, lambda *_: 1.0, name=f"n{number}"):
            machine = replace(run.machine, hostname=f"node{number}")
            store.save(replace(run, machines=(machine,)))
    for number in range(3):
        for run in history.make_runs(
            1, lambda *_: 1.0, survey=lambda _: {"cpu": {"model": "Another"}}, name=f"x{number}"
        ):
            store.save(run)
    body = Pages(store, with_names=True).answer("/fleet", {}).body.replace("\u00a0", " ")
    assert body.count("<article>") == 7
    assert "No node of 6 is slow" in body and "1 more is not judged" in body
    assert "node1, Some CPU" in body and ">Another<" in body and "3 runs" in body


def test_trends_begin_with_newest_machine(tmp_path: Path) -> None:
    """The order is by start: the id of an imported Run does not say it."""
    store = Store(tmp_path / "runs")
    for run in history.make_runs(12, lambda *_: 1.0, name="b"):
        store.save(run)
    late = history.make_runs(14, lambda *_: 1.0, survey=lambda _: {**history.SURVEY, "hostname": "late"}, name="a")
    for run in late:
        store.save(run)
    body = Pages(store, with_names=True).answer("/trends", {}).body.replace("\u00a0", " ")
    assert "late, Some CPU" in body.split("<h1>", 1)[1].split("</section>", 1)[0]
