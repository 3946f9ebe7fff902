"""A small server of a made language model: OpenAI's interface with known delays and every fault on demand.

A request's ``model`` names what goes wrong: ``made`` for nothing, ``fault:cut`` … It runs in a thread of a test, or as
a separate program (``python -m model_server``), which prints its port.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import ssl
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

WORD = " tok"


class _Kept:
    """Keeps what is written."""

    def __init__(self) -> None:
        self.data = bytearray()

    def write(self, data: bytes) -> None:
        self.data += data

    async def drain(self) -> None:
        """Nothing is sent."""


@dataclass
class ModelServer:
    """What it takes, and what it saw."""

    prompt_s: float = 0.0
    """Time before the first token."""
    token_s: float = 0.0
    slots: int = 1 << 30
    """Requests answered at once; more wait."""
    tokens_a_chunk: int = 1
    stop_after: int = 1 << 30
    """Tokens after which an answer ends, no matter what was requested."""
    cached_share: float = 0.0
    block_tokens: int = 0
    """Tokens of a block of its prefix cache, which keeps every prompt; 0 for no such cache."""
    with_usage: bool = True
    counts_times: int = 1
    """Its usage counts each token this many times."""
    keeps_back: bool = False
    """Sends an answer when it is whole, as a proxy that buffers does."""
    crlf: bool = False
    closes: bool = False
    """Close the connection after each answer."""
    key: str = ""
    metrics: str = ""
    """What it says of itself at /metrics: ``vllm``, ``sglang`` or ``llama.cpp`` for its true state, or a fault."""
    kv_tokens: int = 0
    """Tokens of its KV cache, in /metrics alone."""
    tls: ssl.SSLContext | None = None
    port: int = 0
    bodies: list[dict[str, Any]] = field(default_factory=list)
    connections: int = 0
    open_now: int = 0
    most_open: int = 0
    waiting: int = 0
    answering: int = 0
    questions: int = 0
    kept_blocks: set[tuple[int, ...]] = field(default_factory=set)
    """The beginnings of prompts in the prefix cache, in whole blocks."""
    states: list[tuple[int, int]] = field(default_factory=list)
    """Requests that waited and ran at each question."""

    async def serve(self, ready: threading.Event | None = None, end: asyncio.Event | None = None) -> None:
        """Listen on a free port of the loopback until ``end``."""
        self.free = asyncio.Semaphore(self.slots)
        server = await asyncio.start_server(self._client, "127.0.0.1", self.port, ssl=self.tls, backlog=4096)
        self.port = server.sockets[0].getsockname()[1]
        if ready is not None:
            ready.set()
        async with server:
            await (end or asyncio.Event()).wait()

    async def _client(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        self.open_now += 1
        self.most_open = max(self.most_open, self.open_now)
        with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError):
            while await self._exchange(reader, writer) and not self.closes:
                pass
        self.open_now -= 1
        writer.close()

    async def _exchange(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
        first, *lines = head.split("\r\n")
        headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
        body = await reader.readexactly(int(headers.get("content-length", "0")))
        if self.key and headers.get("authorization") != f"Bearer {self.key}":
            _plain(writer, 401, {"error": {"message": "no such key"}})
            return True
        path = first.split(" ")[1]
        if path.endswith("/v1/models"):
            _plain(writer, 200, {"data": [{"id": "made"}]})
            return True
        if path.endswith("/metrics") and self.metrics:
            return await self._metrics(writer)
        if not path.endswith(("/v1/completions", "/v1/chat/completions")):
            _plain(writer, 404, {"error": {"message": f"no {path}"}})
            return True
        request = json.loads(body)
        self.bodies.append(request)
        kind = str(request.get("model", "")).removeprefix("fault:")
        self.waiting += 1
        async with self.free:
            self.waiting, self.answering = self.waiting - 1, self.answering + 1
            try:
                return await self._answer(request, path.endswith("chat/completions"), kind, writer)
            finally:
                self.answering -= 1

    async def _metrics(self, writer: asyncio.StreamWriter) -> bool:
        self.questions += 1
        self.states.append((self.waiting, self.answering))
        share = f"{min(1.0, 100 * self.answering / self.kv_tokens):.3f}" if self.kv_tokens else "0"
        kind, texts = self.metrics, {
            "vllm": f"""# HELP vllm:num_requests_waiting Number of requests waiting to be processed.
# TYPE vllm:num_requests_waiting gauge
vllm:num_requests_waiting{{engine="0",model_name="made"}} {self.waiting}.0
vllm:num_requests_running{{engine="0",model_name="made"}} {self.answering}.0
vllm:kv_cache_usage_perc{{engine="0",model_name="made"}} {share}
vllm:num_preemptions_total{{engine="0",model_name="made"}} {self.questions}.0
vllm:num_preemptions_created{{engine="0",model_name="made"}} 1.79e+09
""",
            "sglang": f"""sglang:num_queue_reqs{{model_name="made"}} {self.waiting}.0
sglang:num_running_reqs{{model_name="made"}} {self.answering}.0
sglang:token_usage{{model_name="made"}} {share}
""",
            "llama.cpp": f"""llamacpp:requests_processing {self.answering}
llamacpp:requests_deferred {self.waiting}
""",
            "absurd": """vllm:num_requests_waiting{engine="0"} NaN
vllm:num_requests_running{engine="0"} -3
vllm:kv_cache_usage_perc{engine="0"} 97
vllm:num_preemptions_total{engine="0"} 1e400
""",
            "binary": "\x00\x01vllm:num_requests_waiting",
            "other": "python_gc_objects_collected_total 3.0\n",
        }  # fmt: skip
        if kind == "hang":
            await asyncio.sleep(3600)
        if kind == "cut":
            writer.transport.abort()
            return False
        if kind == "endless":
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\n\r\n")
            while not writer.is_closing():
                writer.write(b"vllm:num_requests_waiting 1\n" * 10_000)
                await writer.drain()
        _raw(writer, 200 if kind in texts else 503, "text/plain; version=0.0.4", texts.get(kind, "busy").encode())
        return True

    async def _answer(self, request: dict[str, Any], chat: bool, kind: str, writer: asyncio.StreamWriter) -> bool:
        if kind in {"429", "500", "503"}:
            after = "Retry-After: 0.2\r\n" if kind == "429" else ""
            _plain(writer, int(kind), {"error": {"message": "made to fail"}}, after)
            return True
        if kind == "hang":
            await asyncio.sleep(3600)
        if kind == "refuse":
            writer.transport.abort()
            return False
        if kind == "html":
            _raw(writer, 200, "text/html", b"<html>a page</html>")
            return True
        if kind == "whole":
            _plain(writer, 200, {"choices": [{"text": "all at once"}], "usage": {"completion_tokens": 3}})
            return True
        if kind == "garbage":
            writer.write(b"\x00\x01\x02 this is not HTTP\r\n\r\n")
            return False
        if kind == "endless_head":
            while True:
                writer.write(b"X-More: " + b"x" * 8000 + b"\r\n" if writer.can_write_eof() else b"")
                await writer.drain()
        await asyncio.sleep(self.prompt_s + (0.3 if kind == "slow" else 0.0))
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n")
        writer.write(b"Connection: close\r\n\r\n" if self.closes else b"\r\n")
        if kind == "endless_line":
            while True:
                _chunk(writer, b"data: " + b"x" * 60_000)
                await writer.drain()
        if kind == "wrong_chunk":
            writer.write(b"zz\r\nthis is no chunk\r\n")
            return False
        if not self.keeps_back:
            return await self._tokens(request, chat, kind, writer)
        kept = _Kept()
        is_open = await self._tokens(request, chat, kind, kept)
        writer.write(bytes(kept.data))
        await writer.drain()
        return is_open

    async def _tokens(
        self, request: dict[str, Any], chat: bool, kind: str, writer: asyncio.StreamWriter | _Kept
    ) -> bool:
        wanted = min(int(request["max_tokens"]), self.stop_after)
        text = "x" * 300_000 if kind == "huge" else WORD
        if chat:
            self._event(writer, {"choices": [{"index": 0, "delta": {"role": "assistant", "content": None}}]})
        done, due = 0, time.perf_counter()
        while done < wanted and kind != "no_token":
            count = min(self.tokens_a_chunk, wanted - done)
            if done:
                due += self.token_s * count
                await asyncio.sleep(max(0.0, due - time.perf_counter()))
            done += count
            if kind == "cut" and done > wanted // 2 and isinstance(writer, asyncio.StreamWriter):
                writer.transport.abort()
                return False
            if kind == "not_json" and done > wanted // 2:
                self._data(writer, b"{not json")
            if kind == "error" and done > wanted // 2:
                self._event(writer, {"error": {"message": "out of memory", "code": 500}})
            choice: dict[str, Any] = {"index": 0, "finish_reason": "length" if done == wanted else None}
            choice |= {"delta": {"content": text * count}} if chat else {"text": text * count}
            self._event(writer, {"choices": [choice], "sent_ns": time.perf_counter_ns()})
            await writer.drain()
        if kind == "no_token":
            self._event(writer, {"choices": [{"index": 0, "finish_reason": "stop", "delta": {}}]})
        prompt = request.get("prompt")
        prompts = len(prompt) if isinstance(prompt, list) else len(str(prompt or request.get("messages")).split())
        if self.with_usage:
            usage: dict[str, Any] = {"prompt_tokens": prompts, "completion_tokens": self.counts_times * done}
            if self.cached_share or self.block_tokens:
                cached = self._cached(prompt) if isinstance(prompt, list) else int(self.cached_share * prompts)
                usage["prompt_tokens_details"] = {"cached_tokens": cached}
            self._event(writer, {"choices": [], "usage": usage})
        if kind != "no_done":
            self._data(writer, b"[DONE]")
        writer.write(b"0\r\n\r\n")
        await writer.drain()
        return True

    def _cached(self, prompt: list[int]) -> int:
        """Tokens of a prompt that are in the prefix cache, and then all of it is."""
        if not self.block_tokens:
            return int(self.cached_share * len(prompt))
        ends = range(self.block_tokens, len(prompt) + 1, self.block_tokens)
        beginnings = [tuple(prompt[:end]) for end in ends]
        found = [len(beginning) for beginning in beginnings if beginning in self.kept_blocks]
        self.kept_blocks.update(beginnings)
        return max(found, default=0)

    def _event(self, writer: asyncio.StreamWriter | _Kept, event: dict[str, Any]) -> None:
        is_chat = any("delta" in choice for choice in event.get("choices", ()))
        kind = "chat.completion.chunk" if is_chat else "text_completion"
        self._data(writer, json.dumps({"object": kind} | event).encode())

    def _data(self, writer: asyncio.StreamWriter | _Kept, data: bytes) -> None:
        end = b"\r\n\r\n" if self.crlf else b"\n\n"
        _chunk(writer, b"data: " + data + end)

    @contextlib.contextmanager
    def running(self) -> Iterator[str]:
        """Serve in a thread; its URL."""
        ready, loop = threading.Event(), asyncio.new_event_loop()
        end = asyncio.Event()
        thread = threading.Thread(target=lambda: loop.run_until_complete(self._all(ready, end)), daemon=True)
        thread.start()
        assert ready.wait(10)
        try:
            yield f"http{'s' if self.tls else ''}://127.0.0.1:{self.port}"
        finally:
            loop.call_soon_threadsafe(end.set)
            thread.join(10)
            loop.close()

    async def _all(self, ready: threading.Event, end: asyncio.Event) -> None:
        await self.serve(ready, end)
        others = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
        for task in others:
            task.cancel()
        await asyncio.gather(*others, return_exceptions=True)


def _chunk(writer: asyncio.StreamWriter | _Kept, data: bytes) -> None:
    writer.write(b"%x\r\n%b\r\n" % (len(data), data))


def _plain(writer: asyncio.StreamWriter, status: int, document: object, headers: str = "") -> None:
    _raw(writer, status, "application/json", json.dumps(document).encode(), headers)


def _raw(writer: asyncio.StreamWriter, status: int, kind: str, body: bytes, headers: str = "") -> None:
    head = f"HTTP/1.1 {status} Made\r\nContent-Type: {kind}\r\nContent-Length: {len(body)}\r\n{headers}\r\n"
    writer.write(head.encode() + body)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--prompt-s", type=float, default=0.0)
    parser.add_argument("--token-s", type=float, default=0.0)
    parser.add_argument("--slots", type=int, default=1 << 30)
    parser.add_argument("--port-file", type=Path, required=True)
    args = parser.parse_args()
    server = ModelServer(args.prompt_s, args.token_s, args.slots)

    async def serve() -> None:
        ready = threading.Event()
        task = asyncio.create_task(server.serve(ready))
        while not ready.is_set():
            await asyncio.sleep(0.01)
        args.port_file.write_text(str(server.port))
        await task

    asyncio.run(serve())


if __name__ == "__main__":
    main()
