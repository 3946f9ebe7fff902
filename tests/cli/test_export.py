"""Exports: OpenMetrics as Prometheus reads it, Parquet as DuckDB reads it, and no names of hosts or people in them."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import hostile
import made_store as made
import pytest
from hwdyno.cli.main import main
from hwdyno.formats import openmetrics
from hwdyno.model.machine import Machine
from hwdyno.model.words import ExperimentResult, Finding, HostShare, Run, Value
from hwdyno.report.redaction import without_names
from hwdyno.system.store import Store, to_json
from made_experiment import made_experiment

ROOT = Path(__file__).parents[2]
SECRETS = (
    "atlas7",
    "S5H9NX0R",
    "alice",
    "fileserver",
    "db-host",
    "0f3c1a2b-1111-2222-3333-444455556666",
    "52:54:00:12",
)


def named_run(run_id: str = "20260101-000000-abcd", host: str = "atlas7.lab.example") -> Run:
    """A Run that has a name of each kind in every place that can have one."""
    survey = {
        "hostname": host,
        "cpu": {"model": "Some CPU"},
        "storage": {
            "path": "/home/alice/data",
            "source": "fileserver:/export/alice",
            "disks": [{"name": "nvme0n1", "model": "Some Disk", "serial": "S5H9NX0R123"}],
            "options": ["uuid=0f3c1a2b-1111-2222-3333-444455556666"],
        },
        "bmc": {"mac": "52:54:00:12:34:56", "serial_number": "XYZ", "seen": ["52:54:00:12:34:57"]},
        "unknown": {"gpu": f"no driver on {host.split(chr(46))[0]}"},
    }
    share = HostShare(host, Value(1e8, "bytes/s"), 1, 1, 1.0, 0.0, 1, failure="atlas7 did not answer")
    point = replace(made.point(1), hosts=(share,), details={"hosts": {host: {"disk": "/dev/disk/by-id/x_S5H9NX0R123"}}})
    network = made_experiment(
        name="network.streams",
        resource="network",
        asks="x",
        load="streams",
        kernel="network_throughput",
        points=(replace(made.point(2), parameters={"server": "db-host", "streams": 1}),),
    )
    finding = Finding(
        "straggler", "warning", "storage", f"{host.split('.')[0]} is slow", {"host": host}, "Run on /home/alice/x again"
    )
    return replace(
        made.run(made.experiment(point), network, run_id=run_id),
        machines=(Machine.of_survey(survey),),
        findings=(finding,),
        command="hwdyno storage --path /home/alice/data --server db-host",
        degraded=(f"{host} was busy",),
    )


def test_no_name_is_left_in_a_copy_that_leaves() -> None:
    before = named_run()
    text = to_json(without_names(before))
    assert all(secret in to_json(before) for secret in SECRETS)
    assert [secret for secret in SECRETS if secret in text] == []
    after = without_names(before)
    assert after.machine.hostname == "host-1" and after.experiments[0].points[0].hosts[0].host == "host-1"
    assert after.findings[0].says == "host-1 is slow" and after.command.endswith("--path ~/data --server server-2")
    assert "left out" in after.machine.unknown["storage.disks.0.serial"]
    assert after.experiments[0].points[0].throughput == before.experiments[0].points[0].throughput


def test_what_is_no_servers_name_stays_in_a_run_of_inference() -> None:
    fixed = {"path": "s3://bench/cache", "endpoint": "https://s3.lab.example:9000, https://s3b.lab.example"}
    of_a_store = made_experiment(
        "inference.kv_cache.x", "inference", "?", "users", "inference_kv_cache", (), fixed=fixed
    )
    of_a_model = replace(
        of_a_store, fixed={"path": "/data/models", "endpoint": "completions", "server": "http://gpu7:8000"}
    )
    made_run = made.run(*(replace(result, points=(made.point(1),)) for result in (of_a_store, of_a_model)))
    command = "hwdyno inference --path s3://bench/cache --path /data/models --server http://gpu7:8000 completions"
    after = without_names(replace(made_run, command=command))
    assert after.command == command.replace("gpu7", "server-3")
    assert after.experiments[0].fixed["path"] == fixed["path"]
    assert after.experiments[0].fixed["endpoint"] == "https://server-1:9000, https://server-2"


def test_several_hosts_stay_apart_and_everyday_words_stay() -> None:
    machines = tuple(Machine.of_survey({"hostname": name}) for name in ("memory", "node7", "node70"))
    finding = Finding("r", "info", "memory", "memory on node70 is fast, on node7 slow", {}, "a")
    after = without_names(replace(made.run(), machines=machines, findings=(finding,)))
    assert [machine.hostname for machine in after.machines] == ["host-1", "host-2", "host-3"]
    assert after.findings[0].says == "memory on host-3 is fast, on host-2 slow"


def test_any_run_exports_without_names() -> None:
    hostile_run = hostile.wholly_hostile_run()
    assert to_json(without_names(hostile_run))


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Store:
    monkeypatch.setenv("HWDYNO_HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)
    found = Store()
    found.save(named_run())
    found.save(named_run("20260102-000000-abcd"))
    found.save(named_run("20260103-000000-abcd", "other"))
    return found


@pytest.mark.parametrize(
    ("words", "shown"),
    [
        (["export", "all", "--csv", "-"], ["db-host", "other"]),
        (["export", "all", "--openmetrics", "-"], ["db-host", "other"]),
        (["report", "--verbose"], ["db-host", "alice", "other"]),
        (["report", "--markdown"], ["db-host", "alice", "other"]),
        (["report", "--csv"], ["db-host"]),
    ],
)
def test_names_are_shown_only_where_they_are_asked_for(
    words: list[str], shown: list[str], store: Store, capsys: pytest.CaptureFixture[str]
) -> None:
    main(words)
    out = capsys.readouterr().out
    assert out and [secret for secret in (*SECRETS, "other") if re.search(rf"\b{secret}\b", out)] == []
    main([*words, "--with-names"])
    out = capsys.readouterr().out
    assert [name for name in ("db-host", "alice", "other") if name in out] == shown


def test_page_and_parquet_have_no_names(store: Store, tmp_path: Path) -> None:
    assert main(["report", "20260101", "--html", "page.html"]) in {0, 3}
    page = (tmp_path / "page.html").read_text()
    assert [secret for secret in SECRETS if secret in page] == []
    assert main(["export", "all", "--parquet", "points.parquet"]) == 0
    import pyarrow.parquet as pq

    table = pq.read_table(tmp_path / "points.parquet").to_pylist()
    assert [secret for secret in SECRETS if secret in json.dumps(table)] == []
    assert sorted({(row["run"][:8], row["machine"]) for row in table}) == [
        ("20260101", "machine-1"),
        ("20260102", "machine-1"),
        ("20260103", "machine-2"),
    ]
    assert main(["report", "20260101", "--html", "page.html", "--with-names", "--overwrite"]) in {0, 3}
    assert "atlas7" in (tmp_path / "page.html").read_text()


def parsed(text: str) -> dict[str, list[tuple[dict[str, str], float, float]]]:
    from prometheus_client.openmetrics import parser

    families = parser.text_string_to_metric_families(text)
    return {
        family.name: [(sample.labels, sample.value, float(sample.timestamp)) for sample in family.samples]
        for family in families
    }


def test_openmetrics_has_figures_with_times(store: Store, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["export", "all", "--openmetrics", "-"]) == 0
    found = parsed(capsys.readouterr().out)
    samples = found["hwdyno_throughput_bytes_per_second"]
    values = [sample for sample in samples if sample[0]["statistic"] == "value" and sample[0]["resource"] == "storage"]
    assert {labels["machine"] for labels, _, _ in values} == {"machine-1", "machine-2"}
    assert {value for _, value, _ in values} == {made.point(1).throughput.value}
    assert {at for _, _, at in values} == {1767225600.0}
    assert {sample[0]["statistic"] for sample in found["hwdyno_latency_seconds"]} == {
        "mean",
        "0.5",
        "0.9",
        "0.99",
        "0.999",
    }
    (mean,) = {value for labels, value, _ in found["hwdyno_latency_seconds"] if labels["statistic"] == "mean"}
    assert mean == pytest.approx(250e-6)


def test_prometheus_reads_any_names() -> None:
    def odd(result: ExperimentResult, text: str) -> ExperimentResult:
        return replace(result, name=text, fixed={text: text, "le": '\\n"}'})

    for text in (hostile.PAYLOAD, 'a"} 1\n# EOF\n', "\\", "é\n", "", "\ud800"):
        run = made.run()
        run = replace(run, experiments=tuple(odd(experiment, text) for experiment in run.experiments))
        found = parsed(openmetrics.format_runs([(text, run), (text, run)]))
        assert len(found["hwdyno_throughput_bytes_per_second"]) == 9  # three points, each once with its interval


def test_duckdb_reads_the_parquet_by_the_line_that_is_documented(store: Store, tmp_path: Path) -> None:
    lines = re.findall(r'^python -c "import duckdb[^"]*"$', (ROOT / "docs" / "history.md").read_text(), re.MULTILINE)
    assert len(lines) == 1
    assert main(["export", "all", "--parquet", "points.parquet"]) == 0
    here = {"PATH": f"{Path(sys.executable).parent}:/usr/bin:/bin", "PYTHONPATH": ":".join(sys.path)}
    done = subprocess.run(["bash", "-c", lines[0]], capture_output=True, text=True, env=here, timeout=120)
    assert done.returncode == 0, done.stderr
    assert "storage.iodepth" in done.stdout and "machine-2" in done.stdout
