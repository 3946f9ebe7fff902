"""`hwdyno watch`: a planted change is reported once, a steady or busy machine raises no alarm, and turns keep time."""

from __future__ import annotations

import http.server
import importlib.util
import json
import re
import shlex
import shutil
import signal
import subprocess
import sys
import threading
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import made_history as history
import pytest
import yaml
from here import IS_WHOLE, needs, sample, shortly
from hwdyno.cli import watch, watch_units
from hwdyno.cli.main import main
from hwdyno.explain.trends.news import find_news
from hwdyno.explain.trends.time_series import make_history
from hwdyno.model.words import Run, UserError
from hwdyno.system import web_post
from hwdyno.system.store import Store, list_figures, make_entry
from prometheus_client.parser import text_string_to_metric_families

MACHINE = "atlas7, Some CPU"
TINY = 'only = ["compute.clock"]\nbudget = "1s"\n'


def rows_of(runs: list[Run]) -> list[Any]:
    return [(make_entry(run, Path(run.id)), list_figures(run)) for run in runs]


def slower_from(place: int, ratio: float = 0.8) -> history.Level:
    return lambda at, figure: ratio if at >= place and figure < 6 else 1.0


def busy(run: Run, share: float) -> Run:
    """The Run as it is beside other processes: slower, and its points say so."""

    def disturb(point: Any) -> Any:
        slow = replace(point.throughput, value=point.throughput.value * share, low=None, high=None)
        return replace(point, throughput=slow, validity="degraded", why=("others_at_work",))

    experiments = [replace(result, points=tuple(map(disturb, result.points))) for result in run.experiments]
    return replace(run, experiments=tuple(experiments))


# --- what is new


def find(runs: list[Run], count: int) -> Any:
    return find_news(rows_of(runs[:count]), MACHINE)


@pytest.mark.parametrize("seed", shortly(1, 1, 2, 4, 5))
def test_a_planted_regression_is_reported_once_and_soon(seed: int) -> None:
    runs = history.make_runs(26, slower_from(16), seed=seed)
    found = {count: find(runs, count) for count in (18, 20, 21, 22)}
    (count,) = [count for count, news in found.items() if news.events or news.drifts]
    assert count - 16 in {4, 5}, "a level has three runs, and is confirmed by the next"
    assert (found[count].slower, found[count].faster) == (6, 0)
    assert [event.first.id for event in found[count].events] == ["r-016"]


@pytest.mark.parametrize("seed", shortly(1, 1, 2, 3))
def test_a_recovery_is_news_and_the_slow_runs_stay_in_the_history(seed: int) -> None:
    slow = lambda at, figure: 0.8 if 16 <= at < 24 and figure < 6 else 1.0  # noqa: E731
    runs = history.make_runs(33, slow, seed=seed)
    # It is news as soon as a regression would be, and before and after that there is none.
    found = {count: find(runs, count) for count in (range(27, 34) if IS_WHOLE else (27, 28, 29, 33))}
    (news,) = [news for news in found.values() if news.events or news.drifts]
    assert [(event.first.id, event.slower) for event in news.events] == [("r-024", 0)]
    events = make_history(rows_of(runs), MACHINE).events
    assert [event.first.id for event in events if len(event.changes) > 3] == ["r-024", "r-016"]


def test_a_machine_that_became_faster_is_news_too() -> None:
    news = [find(history.make_runs(count, slower_from(16, 1.25)), count) for count in (20, 21)]
    assert [(found.slower, found.faster) for found in news if found.events] == [(0, 6)]


@pytest.mark.parametrize("seed", shortly(1, *range(1, 9)))
def test_a_steady_machine_is_silent(seed: int) -> None:
    runs = history.make_runs(40, lambda at, figure: 1.0, seed=seed)
    found = [find(runs, count) for count in range(10, 41, sample(10, 1))]
    assert not any(news.events or news.drifts for news in found)


def test_busy_runs_raise_no_alarm_and_are_counted() -> None:
    runs = history.make_runs(20, lambda at, figure: 1.0)
    runs[14:] = [busy(run, 0.6) for run in runs[14:]]
    found = make_history(rows_of(runs), MACHINE)
    assert not found.events and found.left_out == 6 * 13
    assert not find_news(rows_of(runs), MACHINE).events


def test_a_machine_that_is_always_busy_is_judged_as_it_is() -> None:
    runs = [busy(run, 1.0) for run in history.make_runs(24, slower_from(14), seed=2)]
    found = make_history(rows_of(runs), MACHINE)
    assert found.left_out == 0 and [event.first.id for event in found.events] == ["r-014"]


# --- the command


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Store:
    monkeypatch.setenv("HWDYNO_HOME", str(tmp_path))
    monkeypatch.setenv("TZ", "UTC")
    return Store()


def planted(monkeypatch: pytest.MonkeyPatch, store: Store, runs: list[Run], words: tuple[str, ...]) -> None:
    """Each turn measures the next one of the Runs, and stores it as the command does."""
    coming = iter(runs)

    def measure(*_: object) -> Run:
        run = replace(next(coming), command=command_of(words))
        store.save(run)
        return run

    monkeypatch.setattr(watch, "measure_with_progress", measure)


def command_of(words: tuple[str, ...]) -> str:
    from hwdyno.cli.main import make_parser
    from hwdyno.cli.run import list_words

    return shlex.join(["hwdyno", "run", *list_words(make_parser("watch").read(list(words)))])


WORDS = ("--only", "memory", "--path", "/tmp")


def test_a_change_is_printed_posted_and_written_and_ends_with_1(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    runs = [replace(run, experiments=run.experiments[:1]) for run in history.make_runs(22, slower_from(16), seed=2)]
    for run in runs[:19]:
        store.save(replace(run, command=command_of(WORDS)))
    store.save(replace(runs[0], id="other", command="hwdyno run by hand"))
    planted(monkeypatch, store, runs[19:], WORDS)
    metrics = tmp_path / "hwdyno.prom"
    with posts() as (url, received):
        line = ["watch", *WORDS, "--metrics", str(metrics), "--post", f"{url}/secret"]
        ends = [main(line) for _ in runs[19:]]
    out, err = capsys.readouterr()
    assert sorted(ends) == [0, 0, 1] and ends[-1] == 0, (out, err)
    assert out.count("6 slower by") == 1 and "Nothing new." in out and "by hand" not in out
    (document,) = received
    assert document["machine"] == MACHINE and document["slower"] == 6 and document["events"][0]["run"] == "r-016"
    assert "6 slower by" in document["text"] and "secret" not in out + err
    families = {family.name: family.samples for family in text_string_to_metric_families(metrics.read_text())}
    assert all(sample.timestamp is None for samples in families.values() for sample in samples)
    assert {sample.labels["machine"] for sample in families["hwdyno_points"]} == {"machine-1"}
    changed = {sample.labels["direction"]: sample.value for sample in families["hwdyno_changed_figures"]}
    assert changed == {"slower": 0.0, "faster": 0.0}, "the last turn found nothing new"


def test_a_file_of_the_users_is_no_place_for_metrics(
    store: Store, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "mine.prom").write_text("mine 1\n")
    assert main(["watch", *WORDS, "--metrics", str(tmp_path / "mine.prom")]) == 2
    assert (
        "exists and is not hwdyno's" in capsys.readouterr().err and (tmp_path / "mine.prom").read_text() == "mine 1\n"
    )


def test_what_is_missing_is_named_before_anything_is_measured(
    store: Store, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "ruptures", None)
    assert main(["watch", *WORDS]) == 2
    assert capsys.readouterr().err == 'hwdyno: the search for changes needs ruptures: pip install "hwdyno[history]"\n'


def test_a_real_turn_is_measured_and_sigterm_ends_the_wait_at_once(tmp_path: Path) -> None:
    plan, metrics, stored = tmp_path / "plan.toml", tmp_path / "hwdyno.prom", tmp_path / "store"
    plan.write_text(TINY)
    words = [
        "watch",
        str(plan),
        "--every",
        "1h",
        "--json",
        "--quiet",
        "--store",
        str(stored),
        "--metrics",
        str(metrics),
    ]
    line = [sys.executable, "-m", "hwdyno", *words]
    with subprocess.Popen(line, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=tmp_path) as program:
        assert program.stdout is not None
        document = json.loads(program.stdout.readline())
        until_s = time.monotonic() + 30
        while not metrics.exists() and time.monotonic() < until_s:
            time.sleep(0.02)
        program.send_signal(signal.SIGTERM)
        program.wait(60)
    assert program.returncode == 143, "an hour is not waited for"
    (run,) = [Store(stored).load(path) for path in (stored / "runs").glob("*.json")]
    assert document["run"] == run.id and not document["changed"] and "Trends need at least 10 runs" in document["text"]
    assert run.command == f"hwdyno run {plan}" and "hwdyno_points" in metrics.read_text()


# --- turns


@pytest.mark.parametrize(("now_s", "number"), [(0.0, 1), (9.9, 1), (10.0, 2), (25.0, 3), (30.1, 4)])
def test_turns_are_due_since_the_first_one(now_s: float, number: int) -> None:
    assert watch.next_turn(100.0, 10.0, 100.0 + now_s) == number


def test_a_missed_turn_is_said_and_none_drifts(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    clock, began = [1000.0], list[float]()
    takes = iter([3.0, 25.0, 1.0, 1.0])

    def take(_: object) -> int:
        began.append(clock[0])
        clock[0] += next(takes)
        if len(began) == 3:
            raise UserError("the disk is full")
        return 0

    def sleep(seconds: float) -> None:
        if len(began) == 4:
            raise KeyboardInterrupt
        clock[0] += seconds + 0.004

    monkeypatch.setattr(watch, "take_turn", take)
    monkeypatch.setattr(watch.time, "monotonic", lambda: clock[0])
    monkeypatch.setattr(watch.time, "sleep", sleep)
    assert main(["watch", "--only", "memory", "--every", "10s"]) == 130
    assert [round(at - 1000, 1) for at in began] == [0.0, 10.0, 40.0, 50.0]
    err = capsys.readouterr().err
    assert (
        "2 turns missed: this one took 25 s, and --every is 10s" in err and "this turn failed: the disk is full" in err
    )


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("--every", "0.1s"), "is shorter than 1 s"),
        (("--post", "ftp://x/secret"), "--post takes a web address"),
        (("--print", "systemd"), "needs --every"),
        (("--print", "cronjob", "--every", "1h"), "needs --node"),
        (("--print", "cronjob", "--every", "7m", "--node", "a"), "one that divides an hour or a day"),
        (("--print", "cronjob", "--every", "1h", "--node", "a", "--metrics", "x"), "which a pod loses"),
        (("--print", "cronjob", "--every", "1h", "--node", "a", "--store", "x"), "is not in the cluster"),
        (("--node", "a"), "the node of --print cronjob"),
        (("--metrics", "/no/such/folder/x.prom", "--every", "nonsense"), "is not a time"),
    ],
)
def test_what_cannot_be_watched_is_one_line(
    words: tuple[str, ...], says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["watch", "--only", "memory", *words]) == 2
    err = capsys.readouterr().err
    assert says in err and err.count("\n") == 1 and "secret" not in err


# --- a post


class Receiver(http.server.BaseHTTPRequestHandler):
    """Keeps what is posted; how it answers is in the path."""

    received: list[dict[str, Any]]

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        if self.path == "/slow":
            time.sleep(1.0)
        self.received.append(json.loads(body) | {"authorization": self.headers["Authorization"]})
        self.send_response({"/moved": 302, "/broken": 500}.get(self.path, 204))
        self.send_header("Location", "/elsewhere")
        self.end_headers()

    def log_message(self, *_: object) -> None:
        pass


class posts:  # noqa: N801
    """A server of posts: its URL and what it received."""

    def __enter__(self) -> tuple[str, list[dict[str, Any]]]:
        handler = type("Receiving", (Receiver,), {"received": []})
        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
        threading.Thread(target=self.server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()
        return f"http://127.0.0.1:{self.server.server_port}", handler.received

    def __exit__(self, *_: object) -> None:
        self.server.shutdown()
        self.server.server_close()


def test_a_post_has_a_deadline_and_says_why_it_failed() -> None:
    with posts() as (url, received):
        assert web_post.post_json(f"{url}/ok", {"a": 1}) == ""
        assert web_post.post_json(url.replace("http://", "http://me:a%20b@") + "/ok", {"a": 1}) == ""
        assert received == [{"a": 1, "authorization": None}, {"a": 1, "authorization": "Basic bWU6YSBi"}]
        assert web_post.post_json(f"{url}/broken", {}) == "it answered 500 Internal Server Error"
        assert web_post.post_json(f"{url}/moved", {}) == "it answered 302 Found" and len(received) == 4
        began_s = time.monotonic()
        assert web_post.post_json(f"{url}/slow", {}, 0.2) == "no answer within 0.2 s"
        assert time.monotonic() - began_s < 0.9
    assert web_post.post_json(f"{url}/gone", {}) == "Connection refused"


@pytest.mark.parametrize("url", ["x", "file:///etc/passwd", "http://", "https://:80/", "http://a:99999/"])
def test_what_is_no_web_address_is_refused_without_being_shown(url: str) -> None:
    with pytest.raises(UserError) as refused:
        web_post.check_address(url)
    assert str(refused.value) == "--post takes a web address, such as https://alerts.example/hook"


# --- units


def printed(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    assert main(["watch", *words]) == 0
    return capsys.readouterr().out


@needs(shutil.which("systemd-analyze") is not None, "systemd-analyze is missing")
def test_systemd_takes_both_units_as_the_page_writes_them(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    strange = tmp_path / 'a "b" 50% $HOME\\x'
    strange.mkdir()
    monkeypatch.chdir(strange)
    (strange / "plan.toml").write_text(TINY)
    text = printed(capsys, "plan.toml", "--every", "90m", "--post", "https://a.example/b?c=%20", "--print", "systemd")
    page = (Path(__file__).parents[2] / "docs" / "operators.md").read_text()
    (awk,) = re.findall(r"""^sudo (awk '.*') <<< "\$units"$""", page, re.MULTILINE)
    here = text.replace(f"# {watch_units.FOLDER}/", f"# {tmp_path}/")
    subprocess.run(["bash", "-c", awk.replace("/^# \\/etc\\//", "/^# \\//")], input=here, text=True, check=True)
    units = [str(tmp_path / f"hwdyno-watch.{kind}") for kind in ("service", "timer")]
    done = subprocess.run(["systemd-analyze", "verify", *units], capture_output=True, text=True, check=False)
    ours = [line for line in done.stderr.splitlines() if "hwdyno-watch" in line]
    assert done.returncode == 0 and ours == [], done.stderr
    service = (tmp_path / "hwdyno-watch.service").read_text()
    assert "OnUnitActiveSec=5400s" in (tmp_path / "hwdyno-watch.timer").read_text()
    assert "SuccessExitStatus=3 143" in service and "c=%%20" in service and "50%% $$HOME\\\\x" in service
    assert "--every" not in service, "the timer repeats it"


@pytest.mark.parametrize(
    ("every_s", "schedule"),
    [(60, "* * * * *"), (900, "*/15 * * * *"), (3600, "0 * * * *"), (21600, "0 */6 * * *"), (86400, "0 0 * * *"),
     (604800, "0 0 * * 0")],
)  # fmt: skip
def test_a_time_is_a_schedule(every_s: float, schedule: str) -> None:
    assert watch_units.cron_schedule(every_s) == schedule


def cron_job(capsys: pytest.CaptureFixture[str], folder: Path, *more: str) -> list[dict[str, Any]]:
    plan = folder / "plan.toml"
    plan.write_text(TINY)
    words = (str(plan), "--every", "6h", "--print", "cronjob", "--node", "node7.example")
    return list(yaml.safe_load_all(printed(capsys, *words, *more)))


DATABASE = ("--store", "postgresql://bench@db/hwdyno")


def test_a_cron_job_measures_on_its_node_with_its_plan_and_keeps_its_runs(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    documents = cron_job(capsys, tmp_path)
    assert [document["kind"] for document in documents] == ["ConfigMap", "PersistentVolumeClaim", "CronJob"]
    settings, claim, job = documents
    assert settings["data"] == {"plan.toml": TINY} and job["spec"]["schedule"] == "0 */6 * * *"
    assert job["spec"]["concurrencyPolicy"] == "Forbid"
    pod = job["spec"]["jobTemplate"]["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    assert container["command"][2] == "hwdyno watch /plan/plan.toml --path /storage/data --quiet || test $? -eq 3"
    assert pod["hostname"] == "node7" and pod["nodeSelector"] == {"kubernetes.io/hostname": "node7.example"}
    assert {"name": "HWDYNO_HOME", "value": "/store"} in container["env"]
    assert {mount["name"] for mount in container["volumeMounts"]} == {volume["name"] for volume in pod["volumes"]}
    claimed = {volume.get("persistentVolumeClaim", {}).get("claimName") for volume in pod["volumes"]}
    assert claim["metadata"]["name"] in claimed
    in_database = cron_job(capsys, tmp_path, *DATABASE)
    assert [document["kind"] for document in in_database] == ["ConfigMap", "CronJob"]


@needs(importlib.util.find_spec("kubernetes_validate") is not None, "the schemas are not installed")
@pytest.mark.parametrize("release", shortly(1, "1.37", "1.25"))
def test_a_cron_job_fits_the_schema(release: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    import kubernetes_validate

    for document in (*cron_job(capsys, tmp_path), *cron_job(capsys, tmp_path, *DATABASE)):
        kubernetes_validate.validate(document, release, strict=True)
