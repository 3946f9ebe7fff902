"""Serving: requests to a server of a language model by its OpenAI-compatible interface, and the times of its tokens."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hwdyno.model.units import plural
from hwdyno.model.words import Axis, Declaration, UserError

if TYPE_CHECKING:
    from hwdyno.measure.serving.answers import Answer
    from hwdyno.measure.serving.client_result import ClientResult
    from hwdyno.measure.serving.reading import SendRecord
    from hwdyno.measure.serving.schedule import Load
    from hwdyno.measure.serving.server_address import ServerAddress

KERNEL = "inference_serving"
PROCESSES = ("poisson", "gamma", "constant", "trace")
MAX_CONNECTIONS = 8192

DECLARATION = Declaration(
    measures="requests answered by a server of a language model, and the times of their tokens",
    operation="request",
    counts={"operations": "1"},
    axes=(
        Axis("server", default="", means="URL of an OpenAI-compatible server", kind="text"),
        Axis(
            "endpoint", default="completions", means="completions: token ids, of exact lengths; chat: messages",
            kind="choice", choices=("completions", "chat"),
        ),
        Axis("served_model", default="", means="name at the server; empty for its first", kind="text"),
        Axis(
            "concurrency", role="concurrency", default=1, means="users, each with one request at a time",
            kind="integer", title="concurrent requests", least=1, most=MAX_CONNECTIONS,
        ),
        Axis(
            "rate", role="rate", default=0.0, means="requests/s, however many are unanswered; 0 for users that wait",
            title="request rate", least=0.0, most=1e6,
        ),
        Axis(
            "arrivals", default="poisson", means="how the requests of a rate come", kind="choice", choices=PROCESSES
        ),
        Axis(
            "burstiness", default=1.0, means="shape of gamma arrivals: below 1 bursts, 1 Poisson, above 1 more even",
            least=0.01, most=1e6,
        ),
        Axis("think_time", "s", default=0.0, means="a user's pause after an answer", least=0.0, most=3600.0),
        Axis("trace", default="", means="file of --arrivals trace: Mooncake, BurstGPT or Azure", kind="text"),
        Axis(
            "input_tokens", default="128", kind="text",
            means="of a prompt: 128, uniform:64:256, normal:128:32, lognormal:128:0.5, exponential:128",
        ),
        Axis("output_tokens", default="32", means="of an answer, likewise", kind="text"),
        Axis("text_prompts", default=False, means="words instead of token ids", kind="flag"),
        Axis("ignore_eos", default=True, means="answers of full length: go on past an end token", kind="flag"),
        Axis(
            "shared_prefix", default=0, means="tokens that all prompts begin with, within their length",
            kind="integer", least=0, most=10**6,
        ),
        Axis(
            "reuse_prompts", default=False, kind="flag",
            means="allow the server's prefix cache; without a shared prefix or a trace, send each prompt again",
        ),
        Axis("ttft_target", "s", default=0.0, means="goodput: time to first token; 0 for any", least=0.0, most=3600.0),
        Axis("tpot_target", "s", default=0.0, means="goodput: time a token; 0 for any", least=0.0, most=3600.0),
        Axis(
            "connections", default=1024, means="at most so many at once; more requests wait in the client",
            kind="integer", least=1, most=MAX_CONNECTIONS,
        ),
        Axis("timeout", "s", default=120.0, means="for a whole answer", least=0.01, most=86400.0),
        Axis("allow_remote", default=False, means="load a server on another host", kind="flag"),
        Axis("seed", default=1, means="of prompts, lengths and arrivals", kind="integer", least=0, most=2**63 - 1,
             seeds=True),
        Axis("requests", default=0, means="users send at least so many in all", kind="integer", least=0, most=10**7),
        Axis("runtime", "s", default=10.0, means="send for so long, then wait for answers", least=0.0, most=86400.0),
    ),
)  # fmt: skip


class Serving:
    """A server of a language model on this machine, or on another one if that was allowed."""

    declaration = DECLARATION

    def run(self, parameters: dict[str, Any]) -> dict[str, Any]:
        """Send the load once and give its Reading.

        Raises ``UserError`` for a wrong value and for a server that does not serve, ``OSError`` for one that stops to.
        """
        from hwdyno.measure.serving import client, client_result, metrics, request_figures
        from hwdyno.measure.serving.answers import read_answer
        from hwdyno.measure.serving.prompts import Wording
        from hwdyno.measure.serving.reading import make_reading
        from hwdyno.measure.serving.server_address import resolve_server

        settings = {axis.name: axis.default for axis in DECLARATION.axes} | parameters
        load = make_load(settings)
        server = resolve_server(str(settings["server"]), allow_remote=bool(settings["allow_remote"]))
        wording = Wording(
            chat=settings["endpoint"] == "chat",
            model=str(settings["served_model"]) or _listed_model(server),
            text=bool(settings["text_prompts"]),
            ignore_end=bool(settings["ignore_eos"]),
            reuse_prompts=bool(settings["reuse_prompts"]),
        )
        how = client_result.ClientSettings(
            runtime_s=float(settings["runtime"]),
            timeout_s=float(settings["timeout"]),
            connections=int(settings["connections"]),
            min_requests=int(settings["requests"]),
        )
        with metrics.watch_server(server, how.runtime_s) as watched:
            result = client.drive(
                server, load, how, lambda prompt: server.request(str(settings["endpoint"]), wording.body(prompt))
            )
        ended = [request for request in result.sent if request.end_ns or request.failure]
        answers = [read_answer(request.exchange, request.failure) for request in ended]
        requests = [
            request_figures.convert_request(sent, answer, result.started_ns)
            for sent, answer in zip(ended, answers, strict=True)
            if not answer.failure
        ]
        if answers and not requests and not result.interrupted:
            fault = request_figures.list_faults(answers)[0]
            raise OSError(f"{settings['server']} answered none of {plural(len(ended), 'request')}: {fault['says']}")
        reading = make_reading(KERNEL, settings, load, requests, _send_record(result, answers))
        ramp_ns, end_ns = (round(share * how.runtime_s * 1e9) for share in (0.1, 1))
        reading["details"] |= watched.details(result.started_ns + ramp_ns, result.started_ns + end_ns)
        return reading


WORKLOAD = Serving()


@cache
def _listed_model(server: ServerAddress) -> str:
    from hwdyno.measure.serving.model_list import first_model

    return first_model(server)


def make_load(settings: dict[str, Any]) -> Load:
    """The load of some parameters. Raises ``UserError``."""
    from hwdyno.formats import request_trace
    from hwdyno.measure.serving import lengths
    from hwdyno.measure.serving.schedule import Load

    process, rate = str(settings["arrivals"]), float(settings["rate"])
    if (process == "trace") != bool(settings["trace"]):
        raise UserError("--arrivals trace and --trace FILE belong together; give both or neither")
    if settings["concurrency"] > settings["connections"]:
        raise UserError(
            f"--concurrency {settings['concurrency']} needs as many --connections, and has {settings['connections']}"
        )
    return Load(
        prompt=lengths.parse(str(settings["input_tokens"]), "input-tokens"),
        output=lengths.parse(str(settings["output_tokens"]), "output-tokens"),
        seed=int(settings["seed"]),
        users=int(settings["concurrency"]),
        rate=rate,
        process=process,
        burstiness=float(settings["burstiness"]),
        think_s=float(settings["think_time"]),
        shared_prefix=int(settings["shared_prefix"]),
        same_prompts=bool(settings.get("reuse_prompts")) and not settings["shared_prefix"] and not settings["trace"],
        trace=request_trace.read(Path(str(settings["trace"]))) if settings["trace"] else (),
    )


def _send_record(result: ClientResult, answers: Sequence[Answer]) -> SendRecord:
    from hwdyno.measure.serving import request_figures
    from hwdyno.measure.serving.reading import SendRecord

    return SendRecord(
        failures=sum(bool(answer.failure) for answer in answers),
        faults=request_figures.list_faults(answers),
        cpu_user_s=result.cpu_user_s,
        cpu_system_s=result.cpu_system_s,
        connections=result.connections,
        waited_for_connection=result.waited_for_connection,
        late_bodies=result.late_bodies,
        interrupted=result.interrupted,
        kept_too_much=result.kept_too_much,
    )
