"""An agent that behaves well but for one planned fault: ``python hostile_peer.py CANNED.json FAULT.json``.

A fault names the request at which it happens (``greeting``, a verb, or the action of ``files``) and what happens then.
"""

from __future__ import annotations

import copy
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

NO_ANSWER = object()


def changed(answer: Any, path: str, value: Any) -> Any:
    """The answer with another value at a dotted path, or without that field where the value is ``NO_ANSWER``."""
    answer = copy.deepcopy(answer)
    *inner, last = path.split(".")
    at = answer
    for part in inner:
        at = at[int(part)] if isinstance(at, list) else at[part]
    place: Any = int(last) if isinstance(at, list) else last
    if value is NO_ANSWER:
        del at[place]
    else:
        at[place] = value
    return answer


class Peer:
    """The agent, on an input and an output."""

    def __init__(self, source: IO[bytes], sink: IO[bytes], canned: dict[str, Any], fault: dict[str, Any]) -> None:
        self.source, self.sink, self.canned, self.fault = source, sink, canned, fault
        self.lengths: dict[str, int] = {}
        self.seen = 0

    def serve(self) -> None:
        """Answer until the input ends."""
        self.answer("greeting", None, self.canned["greeting"])
        for line in self.source:
            request = json.loads(line)
            verb = request["do"] if request["do"] != "files" else request["action"]
            self.answer(verb, request, self.right_answer(verb, request))

    def right_answer(self, verb: str, request: dict[str, Any]) -> Any:
        """What a sound agent answers."""
        if verb in {"survey", "kernels", "snapshot", "find"}:
            return self.canned[verb]
        if verb == "clock":
            return {"ns": time.monotonic_ns()}
        if verb == "claim":
            return {"data": "/x/d/data", "directory": "/x/d", "size_bytes": 1 << 40, "free_bytes": 1 << 39}
        if verb == "size":
            return {"bytes": self.lengths.get(request["path"], 0)}
        if verb == "release":
            return {"released": True}
        if verb == "run":
            self.running, self.request = request, request["id"]
            if request["kernel"] == "storage_layout":
                self.lengths[request["parameters"]["path"]] = request["parameters"]["size"]
        if verb in {"run", "program"}:
            self.request = request["id"]
            return {"ready": True}
        if verb == "start":
            now = time.monotonic_ns()
            reading = {**self.canned["reading"], "kernel": self.running["kernel"]}
            reading["parameters"] = self.running["parameters"]
            return {"reading": reading, "started_ns": now, "ended_ns": now + 1000}
        return {}

    def answer(self, verb: str, request: dict[str, Any] | None, right: Any) -> None:
        """Send the answer, or commit the fault."""
        number = None if request is None else self.request if verb == "start" else request["id"]
        if verb == self.fault.get("at"):
            self.seen += 1
            if self.seen == self.fault.get("nth", 1):
                for line in self.wrong_lines(number, right):
                    self.sink.write(line)
                    self.sink.flush()
                return
        if verb == "greeting" or (isinstance(right, dict) and right == {"ready": True}):
            document = right if number is None else {"id": number, **right}
        else:
            document = {"id": number, "answer": right}
        self.sink.write(json.dumps(document).encode() + b"\n")
        self.sink.flush()

    def wrong_lines(self, number: Any, right: Any) -> Iterator[bytes]:
        """What is sent instead of the right answer."""
        fault = self.fault
        if "path" in fault:
            wrong = changed(right, fault["path"], fault.get("value", NO_ANSWER))
            yield json.dumps(wrong if number is None else {"id": number, "answer": wrong}).encode() + b"\n"
        elif "answer" in fault:
            yield json.dumps({"id": number, "answer": fault["answer"]}).encode() + b"\n"
        elif "document" in fault:
            yield json.dumps({"id": number, **fault["document"]}).encode() + b"\n"
        elif "raw" in fault:
            piece, count = fault.get("fill", ("", 0))
            raw = fault["raw"].replace("NUMBER", json.dumps(number)).replace("FILL", piece * count).encode("latin-1")
            yield from (raw for _ in range(fault.get("times", 1)))
        elif "endless" in fault:
            while True:
                yield fault["endless"].encode()
                time.sleep(fault.get("apart_s", 0))
        elif "then" in fault:
            yield from self.then(fault["then"], number, right)
        if fault.get("right_after"):
            yield json.dumps({"id": number, "answer": right}).encode() + b"\n"

    def then(self, deed: str, number: Any, right: Any) -> Iterator[bytes]:
        """What is done instead of an answer."""
        if deed == "close":
            os.close(self.sink.fileno())
            time.sleep(60)
        elif deed == "exit":
            os._exit(3)
        elif deed == "chatter":
            while True:
                os.write(2, b"nonsense\x1b[31m " * 4096)
        elif deed == "children":
            for options in ({}, {"start_new_session": True}):
                subprocess.Popen(["sleep", "61.5"], **options)  # type: ignore[call-overload]
            yield b"{\n"
        elif deed == "sleep":
            time.sleep(60)
        elif deed == "deaf":
            yield json.dumps({"id": number, "answer": right}).encode() + b"\n"
            time.sleep(60)


def main(canned: str, fault: str) -> None:
    """Serve the standard input; the end of it does not end this process where the fault says so."""
    known = json.loads(Path(canned).read_text(encoding="utf-8"))
    peer = Peer(sys.stdin.buffer, sys.stdout.buffer, known, json.loads(fault))
    try:
        peer.serve()
    except OSError:
        os._exit(4)
    if peer.fault.get("stays"):
        time.sleep(60)


if __name__ == "__main__":
    main(*sys.argv[1:3])
