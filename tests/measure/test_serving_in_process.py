"""A model that answers a load in this process: who is sent when, the engine's steps, and ``--in-process``."""

from __future__ import annotations

import json
import threading
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hwdyno.cli.main import main
from hwdyno.formats.request_trace import TracedRequest
from hwdyno.measure import plan
from hwdyno.measure.models import GRAPH, WEIGHTS, onnx, safetensors, shapes
from hwdyno.measure.scenarios.model import SEED
from hwdyno.measure.serving import in_process, lengths
from hwdyno.measure.serving.schedule import Load
from hwdyno.measure.workloads import find
from hwdyno.measure.workloads.inference_in_process import DECLARATION
from hwdyno.measure.workloads.model_batch import Batch
from hwdyno.measure.workloads.model_stacks import Onnx


class Engine:
    """Answers at once, and notes its requests; ``pass_on`` lets it wait until something has happened."""

    def __init__(self, slots: int = 2, context: int = 64) -> None:
        self.slots, self.context = slots, context
        self.past = [0] * slots
        self.started: list[int] = []
        self.stepped: list[tuple[int, ...]] = []
        self.pass_on: threading.Event | None = None

    def start(self, slot: int, ids: Sequence[int]) -> None:
        if self.pass_on is not None:
            self.pass_on.wait(10)
        self.past[slot] = len(ids)
        self.started.append(len(ids))

    def step(self, slots: Sequence[int]) -> None:
        self.stepped.append(tuple(slots))
        for slot in slots:
            self.past[slot] += 1


def _load(**more: Any) -> Load:
    return Load(prompt=lengths.parse("5", "x"), output=lengths.parse("3", "x"), seed=1, **more)


def test_every_answer_has_its_tokens_and_its_moments_in_order() -> None:
    engine = Engine()
    found = in_process.drive(engine, _load(users=4), runtime_s=0.0, min_requests=12)
    assert len(found.requests) >= 12 and not found.failures
    for request in found.requests:
        assert request.due_s <= request.sent_s <= request.first_s <= request.last_s
        assert request.output_tokens == request.wanted_tokens == 3 and len(request.gaps_s) == 2 == len(
            request.tokens_by_gap
        )
        assert request.prompt_tokens == 5 and 1 <= request.in_flight <= 4
    assert engine.started == [5] * len(found.requests)
    spent = found.spent
    assert spent.stepped_tokens == 2 * len(found.requests) == sum(map(len, engine.stepped))
    assert spent.prompt_tokens == 5 * len(found.requests) and spent.steps == len(engine.stepped)
    # Each step reads the context that it adds to: 6 and 7 tokens of each answer.
    assert spent.context_tokens == 13 * len(found.requests)


def test_no_more_requests_than_slots_are_answered_at_once() -> None:
    engine = Engine(slots=3)
    in_process.drive(engine, _load(users=8), runtime_s=0.0, min_requests=30)
    assert max(len(slots) for slots in engine.stepped) == 3
    assert {slot for slots in engine.stepped for slot in slots} == {0, 1, 2}


def test_an_open_loop_sends_on_while_the_engine_is_busy() -> None:
    """No coordinated omission: a step that never ends holds no one back from being sent."""
    engine = Engine(slots=1)
    engine.pass_on = threading.Event()
    trace = tuple(TracedRequest(at / 1000, 5, 2) for at in range(20))
    client_done = threading.Event()

    def let_go() -> None:
        client_done.wait(10)
        assert engine.pass_on is not None
        engine.pass_on.set()

    waiting = threading.Thread(target=let_go)
    waiting.start()
    real = in_process._Client.run

    def run(client: in_process._Client) -> None:
        real(client)
        client_done.set()

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(in_process._Client, "run", run)
        found = in_process.drive(engine, _load(trace=trace), runtime_s=1.0)
    waiting.join()
    assert [round(request.due_s, 6) for request in found.requests] == [round(request.due_s, 6) for request in trace]
    # All were sent before the first was answered, and the last one's TTFT has its wait.
    assert max(request.sent_s for request in found.requests) <= min(request.first_s for request in found.requests)
    assert [request.in_flight for request in found.requests] == list(range(1, 21))


def test_oversized_request_fails_alone() -> None:
    engine = Engine(context=10)
    load = replace(_load(users=2), prompt=lengths.parse("uniform:5:12", "x"))
    found = in_process.drive(engine, load, runtime_s=0.0, min_requests=40)
    assert found.failures and len(found.requests) + found.failures >= 40
    assert all((request.prompt_tokens or 0) + 3 <= 10 for request in found.requests)


def test_a_user_thinks_between_its_requests() -> None:
    found = in_process.drive(Engine(), _load(users=1, think_s=0.02), runtime_s=0.0, min_requests=4)
    ends = [request.last_s for request in found.requests]
    assert all(after.due_s == pytest.approx(end + 0.02) for end, after in zip(ends, found.requests[1:], strict=False))


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder, model = tmp_path_factory.mktemp("tiny"), shapes.find("tiny")
    with (folder / WEIGHTS).open("wb") as file:
        for piece in safetensors.parts(model, SEED):
            file.write(piece)
    graph = onnx.make_graph(model, WEIGHTS, safetensors.read_header(folder / WEIGHTS).places)
    (folder / GRAPH).write_bytes(graph)
    return folder


def _alone(folder: Path, ids: list[int], count: int) -> list[int]:
    """The tokens by the model's own graph, one sequence at a time."""
    model = Onnx(folder, "tiny", threads=1)
    found = [int(model.decode(ids, 0).argmax())]
    for at in range(count - 1):
        found.append(int(model.decode([found[-1]], len(ids) + at).argmax()))
    return found


@pytest.mark.machine
def test_sequences_in_one_step_get_the_tokens_that_each_gets_alone(tiny: Path) -> None:
    """ONNX Runtime on prompts of unlike lengths, with a hole between the slots, and a slot that is used again."""
    prompts = {slot: [(37 * slot + 11 * at) % 512 for at in range(5 + 3 * slot)] for slot in range(4)}
    batch = Batch(tiny, "tiny", slots=4, context=64, threads=1)
    found: dict[int, list[int]] = {slot: [] for slot in prompts}
    for running in ((0, 1, 3), (2,)):
        for slot in running:
            batch.start(slot, prompts[slot])
            found[slot].append(batch.last[slot])
        for _ in range(5):
            batch.step(running)
            for slot in running:
                found[slot].append(batch.last[slot])
    assert found == {slot: _alone(tiny, ids, 6) for slot, ids in prompts.items()}


QUIET = ("--no-page", "--quiet", "--json", "--runtime", "0.1", "--input-tokens", "16", "--output-tokens", "8")


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HWDYNO_HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)
    (tmp_path / "place").mkdir()
    monkeypatch.setitem(plan.PROFILES, "quick", replace(plan.PROFILES["quick"], repeats_min=1, repeats_max=1))
    return tmp_path / "place"


def _measured(place: Path, capsys: pytest.CaptureFixture[str], *words: str) -> dict[str, Any]:
    words = ("inference", "--in-process", "onnxruntime", "--model", "tiny", "--path", str(place), *words, *QUIET)
    status = main(list(words))
    out, err = capsys.readouterr()
    assert status in {0, 3}, err
    found: dict[str, Any] = json.loads(out)
    return found


@pytest.mark.machine
def test_users_of_a_model_in_this_process_are_a_run_as_any_other(
    place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = _measured(place, capsys, "--concurrency", "3", "--batch", "2", "--ttft-target", "60", "--requests", "6")
    served, memory = run["experiments"]
    assert (served["name"], memory["name"]) == ("inference.in_process", "inference.memory")
    bandwidth = memory["points"][0]["throughput"]["value"]
    for point in served["points"]:
        details, users = point["details"], point["parameters"]["concurrency"]
        assert point["operations"] >= 6 and point["throughput"]["unit"] == "operations/s"
        assert details["output_tokens_mean"] == 8 and details["prompt_tokens_mean"] == 16
        assert details["good_share"] == 1 and 1 <= details["tokens_a_step"] <= min(2, users)
        times = next(stream for stream in point["streams"] if stream["name"] == "token")["latency_ns"]
        assert {"first_token", "per_token", "token_gap", "send_lag"} <= set(times)
        # 64 numbers of 4 bytes for each of 2 heads' keys and values in 2 layers, and the weights once a step.
        model = shapes.find("tiny")
        assert model.decoder is not None
        at_least = model.bytes_per_token / details["tokens_a_step"] + 17 * model.decoder.kv_bytes
        assert at_least <= details["bytes_per_token"] <= at_least + 8 * model.decoder.kv_bytes
        (ceiling,) = (
            candidate for candidate in served["ceilings"] if candidate["metric"] == f"served/concurrency/{users}"
        )
        assert ceiling["value"] == pytest.approx(bandwidth / details["bytes_per_token"] / 7)
        assert "weights and KV cache a token" in ceiling["formula"]
    assert not list(place.iterdir())


@pytest.mark.machine
def test_trace_replays_at_its_times(tiny: Path, tmp_path: Path) -> None:
    trace = tmp_path / "trace.csv"
    trace.write_text("Timestamp,Request tokens,Response tokens\n0,9,2\n0.02,11,3\n0.04,7,4\n")
    given = {"model": "tiny", "path": str(tiny), "arrivals": "trace", "trace": str(trace), "runtime": 1.0}
    reading = find("inference_in_process").run(given)
    request, token = reading["streams"]
    assert request["operations"] == 3 and reading["details"]["prompt_tokens_mean"] == 9
    assert reading["details"]["output_tokens_mean"] == 3 and reading["concurrency_requested"] == 0
    assert {"first_token", "per_token", "send_lag"} <= set(token["latency_ns"]) and not reading["faults"]


@pytest.mark.parametrize("arrivals", ["poisson", "gamma", "constant"])
def test_rate_sends_what_its_seed_says(arrivals: str) -> None:
    load = replace(_load(rate=200.0), process=arrivals, burstiness=0.5, output=lengths.parse("uniform:1:9", "x"))
    found = in_process.drive(Engine(slots=4), load, runtime_s=0.1)
    wanted = load.arrivals_until(0.1)
    sent = sorted(found.requests, key=lambda request: request.due_s)
    assert [(request.due_s, request.wanted_tokens) for request in sent] == [
        (arrival.due_s, arrival.prompt.output_tokens) for arrival in wanted
    ]
    assert all(request.sent_s >= request.due_s for request in sent)


@pytest.mark.machine
@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("--model", "resnet50"), "runs a made decoder, not resnet50"),
        (("--rate", "1", "--concurrency", "2"), "name one of them"),
        (("--input-tokens", "many"), "uniform:64:256"),
        (("--in-process", "torch"), "--in-process torch is unknown"),
        (("--trace", "gone.csv"), "cannot read gone.csv"),
        (("--input-tokens", "2040"), "longer than the context"),
    ],
)
def test_impossible_serving_is_one_line(
    words: tuple[str, ...], says: str, place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    given = {"--in-process": "onnxruntime", "--model": "tiny", "--runtime": "0.1"}
    given |= dict(zip(words[::2], words[1::2], strict=True))
    base = ["inference", "--path", str(place), "--quiet", "--no-page"]
    assert main([*base, *(word for pair in given.items() for word in pair)]) == 2
    out, err = capsys.readouterr()
    assert says in err and err.count("\n") == 1 and not out
    assert not list(place.iterdir())


def test_the_load_has_the_axes_that_it_has_against_a_server() -> None:
    from hwdyno.measure.workloads import inference_serving

    known = {axis.name: axis for axis in DECLARATION.axes}
    shared = {axis.name: axis for axis in inference_serving.DECLARATION.axes if axis.name in known}
    assert all(known[name] is axis for name, axis in shared.items())
    assert {"concurrency", "rate", "arrivals", "burstiness", "trace", "ttft_target", "tpot_target"} <= set(shared)
