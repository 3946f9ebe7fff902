"""The client of served language models against a server of known delays: CPU time a token, and the error of its times.

The server is a separate process that batches as real ones do: every step, each answer gets a token with the moment at
which it was sent, by the clock that both processes share. The send lag is measured on a dedicated processor. "theirs"
is what this machine's kernel takes alone: a loop of ``epoll`` and ``recv`` that keeps nothing, and a thread that only
waits for the moments at which requests are due.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import socket
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator

from hwdyno.measure.serving import client, client_result, lengths
from hwdyno.measure.serving.answers import read_answer
from hwdyno.measure.serving.prompts import Wording
from hwdyno.measure.serving.schedule import Load
from hwdyno.measure.serving.server_address import ServerAddress, resolve_server
from hwdyno.measure.serving.wire import parse_events

from benchmarks import Bench, BenchError, BenchmarkRow, Target

TOKENS = 100
STEP_S = 0.02
USERS = (8, 64, 256)
ANSWERS = 3
"""Answers per user in a reading, so that its connection, made once, weighs little; a reading of the tool takes 10 s."""
PACED_USERS = 4
RATE = 200.0
_SERVER = """
import json, select, socket, sys, time
step_s, tokens = float(sys.argv[1]), int(sys.argv[2])
listening = socket.create_server(("127.0.0.1", 0), backlog=4096)
print(listening.getsockname()[1], flush=True)
poll, links, left = select.epoll(), {}, {}
listening.setblocking(False)
poll.register(listening.fileno(), select.EPOLLIN)
head = b"HTTP/1.1 200 OK\\r\\nContent-Type: text/event-stream\\r\\nTransfer-Encoding: chunked\\r\\n\\r\\n"
def chunk(event):
    data = b"data: " + event + b"\\n\\n"
    return b"%x\\r\\n%b\\r\\n" % (len(data), data)
due = time.perf_counter()
while True:
    due = max(due + step_s, time.perf_counter())
    while (wait := due - time.perf_counter()) > 0 or not left:
        for fd, _ in poll.poll(None if not left else max(0.0, wait)):
            if fd == listening.fileno():
                link, _ = listening.accept()
                link.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                links[link.fileno()] = link
                poll.register(link.fileno(), select.EPOLLIN)
            elif not links[fd].recv(1 << 20):
                poll.unregister(fd)
                links.pop(fd).close()
                left.pop(fd, None)
            else:
                links[fd].sendall(head)
                left[fd] = tokens
        if not left:
            due = time.perf_counter() + step_s
    for fd in list(left):
        left[fd] -= 1
        last = left[fd] == 0
        event = {"choices": [{"index": 0, "text": " token", "finish_reason": "length" if last else None}],
                 "id": "cmpl-0123456789abcdef", "object": "text_completion", "created": 1790000000, "model": "made"}
        if last:
            event["usage"] = {"prompt_tokens": 16, "completion_tokens": tokens}
        text = json.dumps(event)[:-1]
        data = chunk(b'%b, "sent_ns": %d}' % (text.encode(), time.perf_counter_ns()))
        links[fd].sendall(data + (chunk(b"[DONE]") + b"0\\r\\n\\r\\n" if last else b""))
        if last:
            del left[fd]
"""


def measure(bench: Bench) -> Iterator[BenchmarkRow]:
    """The rows, in the order printed."""
    for users in USERS:
        with _server(STEP_S) as server:
            yield from _costs(bench, server, users)
    with _server(STEP_S / 4) as server:
        yield _errors(bench, server)
    with _server(STEP_S, is_apart=True) as server:
        yield from _rates(bench, server)


@contextlib.contextmanager
def _server(step_s: float, *, is_apart: bool = False) -> Iterator[ServerAddress]:
    command = [sys.executable, "-c", _SERVER, str(step_s), str(TOKENS)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            port = (process.stdout.readline() if process.stdout else "").strip()
            if not port:
                raise BenchError("the server of known delays did not start")
            with _apart(process.pid) if is_apart else contextlib.nullcontext():
                yield resolve_server(f"http://127.0.0.1:{port}", allow_remote=False)
        finally:
            process.kill()


@contextlib.contextmanager
def _apart(server: int) -> Iterator[None]:
    """This thread on one processor and the server's process on the others, where there are two.

    Linux moves a server of one thread to the processor of the client that wakes it, and each then waits for the other
    for up to a tick, while the other processors are idle.
    """
    allowed = os.sched_getaffinity(0)
    if len(allowed) > 1:
        os.sched_setaffinity(0, {min(allowed)})
        os.sched_setaffinity(server, allowed - {min(allowed)})
    try:
        yield
    finally:
        os.sched_setaffinity(0, allowed)


def _drive(server: ServerAddress, load: Load, runtime_s: float) -> client_result.ClientResult:
    wording = Wording(chat=False, model="made")
    settings = client_result.ClientSettings(runtime_s=runtime_s, timeout_s=60.0, connections=4096)
    return client.drive(server, load, settings, lambda prompt: server.request("completions", wording.body(prompt)))


def _load(seed: int, users: int = 1, rate: float = 0.0, tokens: int = TOKENS) -> Load:
    return Load(
        prompt=lengths.parse("16", "x"), output=lengths.parse(str(tokens), "x"), seed=seed, users=users, rate=rate
    )


def _costs(bench: Bench, server: ServerAddress, users: int) -> Iterator[BenchmarkRow]:
    """CPU time of the client's thread a token, while it runs and to read the answers afterwards."""
    bench.says(f"client of {users} answers at once")
    during, after, least = [], [], []
    for seed in range(bench.pairs):
        result = _drive(server, _load(seed, users), max(ANSWERS * TOKENS * STEP_S, bench.runtime_s))
        begun = time.thread_time()
        tokens = sum(len(read_answer(request.exchange, request.failure).chunks_ns) for request in result.sent)
        after.append((time.thread_time() - begun) / tokens * 1e6)
        during.append((result.cpu_user_s + result.cpu_system_s) / tokens * 1e6)
        least.append(_received(server, users))
    title = f"CPU of the client a token, {users} answers of {1 / STEP_S:.0f} tokens/s"
    yield BenchmarkRow(
        title,
        "µs",
        statistics.median(during),
        statistics.median(least),
        low=min(during),
        high=max(during),
        target=Target(at_most=10),
    )
    yield BenchmarkRow(
        f"{title}, reading the JSON afterwards", "µs", statistics.median(after), low=min(after), high=max(after)
    )


def _received(server: ServerAddress, users: int) -> float:
    """CPU time a token of a loop that only waits and receives, µs."""
    wording = Wording(chat=False, model="made")
    body = server.request("completions", wording.body(next(_load(0).prompts())))
    with contextlib.ExitStack() as stack:
        poll, receive = stack.enter_context(select.epoll()), {}
        for _ in range(users):
            link = stack.enter_context(socket.create_connection(server.address))
            link.sendall(body)
            poll.register(link.fileno(), select.EPOLLIN)
            receive[link.fileno()] = link.recv
        begun = time.thread_time()
        while found := poll.poll(0.5):
            for fd, _ in found:
                receive[fd](1 << 14)
        return (time.thread_time() - begun) / (users * TOKENS) * 1e6


def _waited() -> float:
    """How late a thread wakes that only waits, 200 times, ms at p99."""
    late = []
    for _ in range(200):
        due = time.perf_counter() + 1 / RATE
        time.sleep(1 / RATE)
        late.append((time.perf_counter() - due) * 1e3)
    return sorted(late)[197]


def _errors(bench: Bench, server: ServerAddress) -> BenchmarkRow:
    """The p99 delay between the server's stamp on a token and the client's."""
    bench.says("timing error of the client")
    found = []
    for seed in range(bench.pairs):
        result = _drive(server, _load(seed, PACED_USERS), max(2.0, bench.runtime_s))
        errors = [
            noted - json.loads(data)["sent_ns"]
            for request in result.sent
            if not request.failure
            for noted, data in parse_events(request.exchange)
            if data != b"[DONE]"
        ]
        found.append(statistics.quantiles(errors, n=100)[98] / 1e3)
    title = f"error of a token's time, p99, {PACED_USERS} answers of {4 / STEP_S:.0f} tokens/s"
    return BenchmarkRow(
        title, "µs", statistics.median(found), low=min(found), high=max(found), target=Target(at_most=100)
    )


def _rates(bench: Bench, server: ServerAddress) -> Iterator[BenchmarkRow]:
    """How late requests of an open loop are sent, and how many of those that were due."""
    bench.says("send lag of an open loop")
    lags, shares, least = [], [], []
    for seed in range(bench.pairs):
        load = _load(seed, rate=RATE)
        result = _drive(server, load, max(2.0, bench.runtime_s))
        late = sorted(request.sent_ns - request.due_ns for request in result.sent)
        lags.append(late[int(0.99 * len(late))] / 1e6)
        least.append(_waited())
        end = result.started_ns + round(max(2.0, bench.runtime_s) * 1e9)
        shares.append(100 * sum(request.sent_ns <= end + 1_000_000 for request in result.sent) / len(late))
    yield BenchmarkRow(f"send lag of {RATE:.0f} requests/s, p99", "ms", statistics.median(lags),
                       statistics.median(least), low=min(lags), high=max(lags), target=Target(at_most=1))  # fmt: skip
    yield BenchmarkRow(f"sent of {RATE:.0f} requests/s that were due", "%", statistics.median(shares), low=min(shares),
              high=max(shares), target=Target(at_least=99))  # fmt: skip
