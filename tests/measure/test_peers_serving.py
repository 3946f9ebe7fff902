"""The load generators of others on our points: programs that write what theirs write, in the confirmed layout.

No test installs the real tools (guidellm takes 6 GB, AIPerf 1 GB, vLLM a GPU build of torch).
"""

from __future__ import annotations

import stat
from pathlib import Path
from typing import Any

import pytest
from hwdyno.measure import peers
from hwdyno.model.words import UserError

SEEDS = Path(__file__).parents[1] / "data" / "fuzz"
KERNEL = "inference_serving"
TOOLS = {
    "vllm_bench": ("HWDYNO_VLLM", "vllm_bench/concurrency.json", "--result-dir", "result.json"),
    "aiperf": ("HWDYNO_AIPERF", "aiperf/concurrency.json", "--artifact-dir", "run/profile_export_aiperf.json"),
    "guidellm": ("HWDYNO_GUIDELLM", "guidellm/benchmarks.json", "--output-path", ""),
}
POINT: dict[str, Any] = {
    "server": "http://127.0.0.1:8000", "concurrency": 4, "input_tokens": "128", "output_tokens": "32", "runtime": 2.0,
}  # fmt: skip


@pytest.fixture(params=TOOLS)
def tool(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A program in the tool's place that keeps its arguments and writes its result to the file that they name."""
    variable, seed, option, file = TOOLS[request.param]
    program = tmp_path / "tool"
    program.write_text(
        "#!/bin/sh\n"
        f"printf '%s\\n' \"$@\" > {tmp_path}/arguments\n"
        f'while [ $# -gt 0 ]; do [ "$1" = {option} ] && place=$2; shift; done\n'
        f'[ -n "$place" ] || exit 0\nplace=$place{"/" + file if file else ""}\n'
        f'mkdir -p "${{place%/*}}" && cp {SEEDS / seed} "$place"\n'
    )
    program.chmod(program.stat().st_mode | stat.S_IEXEC)
    monkeypatch.setenv(variable, str(program))
    monkeypatch.setenv("HWDYNO_TOKENIZER", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    return str(request.param)


def test_point_runs_and_is_read(tool: str, tmp_path: Path) -> None:
    peer = peers.find(tool)
    assert peer.version() is not None and peer.unsupported_reason(KERNEL, POINT) is None
    found = peer.run(KERNEL, POINT)
    assert (found.throughput, found.unit, found.operations) == (5.0, "operations/s", 40)
    assert found.latency_ns_mean == pytest.approx(771.5e6)
    assert found.details["output_tokens_s"] == 160 and found.details["per_token_ns_mean"] == pytest.approx(21e6)
    arguments = (tmp_path / "arguments").read_text().splitlines()
    assert "http://127.0.0.1:8000" in arguments and "4" in arguments
    assert sorted(path.name for path in tmp_path.iterdir()) == ["arguments", "tool"]


def test_a_rate_is_given_as_one(tool: str, tmp_path: Path) -> None:
    peers.find(tool).run(KERNEL, {**POINT, "rate": 3.5, "arrivals": "poisson"})
    arguments = (tmp_path / "arguments").read_text().splitlines()
    assert "3.5" in arguments and not {"--max-concurrency", "--concurrency", "concurrent"} & set(arguments)


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"input_tokens": "uniform:1:9"}, "fixed lengths"),
        ({"trace": "x", "arrivals": "trace"}, "trace"),
        ({"think_time": 1.0}, "think"),
    ],
)
def test_impossible_point_gives_a_sentence(tool: str, changes: dict[str, Any], says: str) -> None:
    peer = peers.find(tool)
    assert says in (peer.unsupported_reason(KERNEL, {**POINT, **changes}) or "")
    with pytest.raises(UserError, match=says):
        peer.run(KERNEL, {**POINT, **changes})


def test_gamma_arrivals_are_vllms_alone(tool: str) -> None:
    why = peers.find(tool).unsupported_reason(KERNEL, {**POINT, "rate": 2.0, "arrivals": "gamma", "burstiness": 0.5})
    assert (why is None) == (tool == "vllm_bench")


def test_without_tokenizer_none_asks_registry(tool: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("HWDYNO_TOKENIZER")
    assert "HWDYNO_TOKENIZER" in (peers.find(tool).unsupported_reason(KERNEL, POINT) or "")


@pytest.mark.parametrize(
    ("load", "profile"), [({}, "kind=concurrent,streams=4"), ({"rate": 3.5}, "kind=poisson,rate=3.5")]
)
def test_guidellm_runs_by_its_version(
    load: dict[str, float], profile: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each option is a kind with its values since 0.7; 0.8.1 was run so on a server of known delays."""
    program = tmp_path / "guidellm"
    program.write_text(
        "#!/bin/sh\n"
        '[ "$1" = --version ] && echo "guidellm version: 0.8.1" && exit 0\n'
        f"printf '%s\\n' \"$@\" > {tmp_path}/arguments\n"
        'for one in "$@"; do case $one in kind=json,path=*) place=${one#kind=json,path=};; esac; done\n'
        f'cp {SEEDS}/guidellm/benchmarks.json "$place"\n'
    )
    program.chmod(0o755)
    monkeypatch.setenv("HWDYNO_GUIDELLM", str(program))
    monkeypatch.setenv("HWDYNO_TOKENIZER", "/models/made")
    monkeypatch.chdir(tmp_path)
    assert peers.find("guidellm").version() == "0.8.1"
    assert peers.find("guidellm").run(KERNEL, {**POINT, **load, "endpoint": "completions"}).operations == 40
    assert (tmp_path / "arguments").read_text().splitlines()[:-4] == [
        "run", "--backend", "kind=openai_http,target=http://127.0.0.1:8000,request_format=/v1/completions,"
        "validate_backend=false", "--profile", profile, "--constraint", "kind=max_duration,seconds=2",
        "--tokenizer", "kind=hf_auto,model=/models/made",
        "--data", "kind=synthetic_text,prompt_tokens=128,output_tokens=32", "--seed",
    ]  # fmt: skip


def test_aiperf_takes_servers_count_of_tokens() -> None:
    """Its own is of the text by another tokenizer: 64 instead of 16 tokens, measured with one of single bytes."""
    assert "--use-server-token-count" in peers.find("aiperf").command(KERNEL, POINT)


def test_no_result_is_one_line(tool: str, tmp_path: Path) -> None:
    (tmp_path / "tool").write_text("#!/bin/sh\nexit 0\n")
    with pytest.raises(OSError, match="wrote no results"):
        peers.find(tool).run(KERNEL, POINT)
