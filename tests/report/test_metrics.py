"""`/metrics` of `hwdyno serve` as Prometheus reads it, and the Grafana dashboard that is drawn of the same metrics."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import hostile
import jsonschema
import made_history as history
import made_run
import made_store as made
import pytest
from hwdyno.formats import openmetrics
from hwdyno.model.words import Value
from hwdyno.report.serve.http_server import HttpResponse
from hwdyno.report.serve.routes import Pages
from hwdyno.system.store import Store
from prometheus_client.openmetrics import parser
from prometheus_client.parser import text_string_to_metric_families
from test_serve import get, started

ROOT = Path(__file__).parents[2]
DASHBOARD = json.loads((ROOT / "docs" / "grafana" / "hwdyno.json").read_text())
SCHEMAS = json.loads((ROOT / "tests" / "data" / "grafana" / "schemas.json").read_text())


def scraped(store: Store, **settings: bool) -> HttpResponse:
    return Pages(store, **{"with_names": False, "has_metrics": True, **settings}).answer("/metrics", {})


def parsed(text: str) -> dict[str, list[Any]]:
    return {family.name: family.samples for family in parser.text_string_to_metric_families(text)}


def values(samples: list[Any], **labels: str) -> list[float]:
    return [sample.value for sample in samples if labels.items() <= sample.labels.items()]


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path)


def test_newest_run_of_each_machine_and_plan_is_scraped(store: Store) -> None:
    runs = history.make_runs(3, lambda at, figure: 1.0 + at)
    for run in runs:
        store.save(replace(run, command="hwdyno run plan.toml"))
    other = replace(made.experiment(made.point(1, 7e8)), name="storage.other")
    store.save(replace(made.run(other, run_id="by-hand"), started=runs[0].started, machines=runs[0].machines))
    for run in history.make_runs(2, lambda *_: 9.0, survey=lambda _: {"hostname": "node2"}, name="n"):
        store.save(run)
    found = parsed(scraped(store).body)
    throughput = found["hwdyno_throughput_bytes_per_second"]
    newest = runs[-1].experiments[0].points[0]
    first = {"machine": "machine-1", "experiment": "storage.iodepth", "statistic": "value", "parameter_iodepth": "1"}
    assert values(throughput, **first) == [newest.throughput.value]
    assert values(throughput, experiment="storage.other", statistic="value") == [7e8]
    assert {sample.labels["machine"] for sample in throughput} == {"machine-1", "machine-2"}
    assert all(sample.timestamp is None for samples in found.values() for sample in samples)
    assert sum(values(found["hwdyno_points"], machine="machine-2")) == 13


def test_series_are_the_same_in_each_run_of_a_plan() -> None:
    """A seed or a run time among the labels would begin new series with each run."""

    def series(seed: int, runtime: float) -> set[tuple[str, ...]]:
        point = made.point(1, seed=seed)
        result = replace(made.experiment(point), fixed={"runtime": runtime, "seed": seed, "size": 1 << 30})
        return {tuple(labels) for _, labels, _ in openmetrics.list_samples(made.run(result))}

    assert series(1, 0.5) == series(2, 0.7)


def test_any_names_are_labels_of_both_formats(store: Store) -> None:
    store.save(replace(hostile.wholly_hostile_run(), id="zz-hostile"))
    store.save(replace(hostile.wholly_hostile_run(made_run.HOSTILE), id="zz-markup"))
    store.save(replace(made_run.whole_run(), id="whole"))
    for with_names in (False, True):
        text = scraped(store, with_names=with_names).body
        found = parsed(text)
        assert len(found) >= 5 and found["hwdyno_points"]
        plain = list(text_string_to_metric_families(text))
        assert len(plain) == len(found), "the textfile collector of node_exporter reads it as well"


def test_server_states_the_format_and_only_where_it_is_wanted(store: Store) -> None:
    store.save(made.run())
    server = started(store, has_metrics=True)
    try:
        status, headers, body = get(server, "/metrics")
        assert (status, headers["content-type"]) == (200, "application/openmetrics-text; version=1.0.0; charset=utf-8")
        assert body.endswith("# EOF\n")
        assert get(server, "/metrics", Host="evil.example")[0] == 421
    finally:
        server.shutdown()
        server.server_close()
    assert Pages(store, with_names=False).answer("/metrics", {}).status == 404


def test_store_without_runs_is_an_empty_scrape(store: Store) -> None:
    assert scraped(store).body == "# EOF\n"


# --- the dashboard


def validate(document: dict[str, Any]) -> None:
    """Raise where the whole dashboard, a query or a panel's options are not as Grafana's schemas have them."""
    jsonschema.Draft7Validator(SCHEMAS["dashboard"]).validate(document)
    for panel in document["panels"]:
        for target in panel["targets"]:
            jsonschema.Draft7Validator(SCHEMAS["prometheus"]).validate(target)
        kind = SCHEMAS[panel["type"]]
        jsonschema.Draft7Validator({**kind, "$ref": "#/definitions/Options"}).validate(panel["options"])
        custom = panel["fieldConfig"]["defaults"].get("custom")
        if custom is not None:
            jsonschema.Draft7Validator({**kind, "$ref": "#/definitions/FieldConfig"}).validate(custom)


def test_dashboard_fits_grafanas_schemas() -> None:
    validate(DASHBOARD)
    ids = [panel["id"] for panel in DASHBOARD["panels"]]
    places = [tuple(panel["gridPos"][name] for name in "xy") for panel in DASHBOARD["panels"]]
    assert len(set(ids)) == len(ids) and len(set(places)) == len(places)
    assert all(panel["gridPos"]["x"] + panel["gridPos"]["w"] <= 24 for panel in DASHBOARD["panels"])


@pytest.mark.parametrize(
    ("place", "value"),
    [
        (("panels", 0, "gridpos"), {}),
        (("panels", 3, "targets", 0, "exprs"), "up"),
        (("panels", 3, "options", "tooltip", "mode"), "some"),
        (("panels", 3, "fieldConfig", "defaults", "custom", "drawStyle"), "curve"),
        (("templating", "list", 1, "kind"), "query"),
    ],
)
def test_wrong_dashboard_is_found(place: tuple[str | int, ...], value: object) -> None:
    document: Any = json.loads(json.dumps(DASHBOARD))
    inner = document
    for step in place[:-1]:
        inner = inner[step]
    inner[place[-1]] = value
    with pytest.raises(jsonschema.ValidationError):
        validate(document)


def exported() -> dict[str, list[Any]]:
    """All metrics that hwdyno exports, of a Run with a point of each unit."""
    units = ("bytes/s", "operations/s", "FLOP/s")
    points = [replace(made.point(at + 1), throughput=Value(1e9, unit)) for at, unit in enumerate(units)]
    samples = (
        *openmetrics.list_samples(made.run(made.experiment(*points))),
        *openmetrics.changed_samples({"slower": 1}),
    )
    return parsed(openmetrics.format_newest([("machine-1", samples)]))


def test_every_query_names_metrics_and_labels_that_are_exported() -> None:
    metrics = exported()
    queries = [target["expr"] for panel in DASHBOARD["panels"] for target in panel["targets"]]
    queries += [variable["query"] for variable in DASHBOARD["templating"]["list"] if variable["type"] == "query"]
    page = (ROOT / "docs" / "operators.md").read_text()
    queries += re.findall(r"expr: (.*)", page)
    assert len(queries) == 9 + 2 + 2
    for query in queries:
        names = re.findall(r"\bhwdyno_\w+", query)
        assert names and all(name in metrics or f"{name}.+" in query for name in names), query
        labels = {name for metric in metrics if metric in query for sample in metrics[metric] for name in sample.labels}
        used = set(re.findall(r"(\w+)(?:=~|=)\"", query)) - {"__name__"}
        assert used <= (labels or {"machine"}), query
    table = re.findall(r"^\| (`hwdyno_.*?) \|", page, re.MULTILINE)
    shown = {name for row in table for name in re.findall(r"hwdyno_\w+", row)}
    assert shown <= metrics.keys() and len(shown) == 6
