"""Wrong messages of an agent, each as a fault of ``hostile_peer`` with the line in which it ends."""

from __future__ import annotations

from typing import Any

HUGE = 1 << 70

Fault = dict[str, Any]


def wrong(at: str, path: str, *values: Any, nth: int = 1) -> list[Fault]:
    return [{"at": at, "path": path, "value": value, "nth": nth} for value in values]


def missing_field(at: str, *paths: str) -> list[Fault]:
    return [{"at": at, "path": path} for path in paths]


AT_START: list[tuple[Fault, str]] = [
    *[
        (fault, "sent what an agent does not: its greeting")
        for fault in [
            *wrong("greeting", "protocol", "4", -1, HUGE, None, 4.5, True),
            *wrong("greeting", "version", 7, "v" * 1000, ["0.1"]),
            *missing_field("greeting", "version", "protocol"),
            *wrong("greeting", "more", 1),
        ]
    ],
    ({"at": "greeting", "raw": "[" * 100_000 + "\n"}, "sent what an agent does not: a message has more than"),
    ({"at": "greeting", "raw": "[" * 2000 + "\n"}, "nested too deep"),
    ({"at": "greeting", "raw": '{"a": NaN}\n'}, "out of range"),
    ({"at": "greeting", "raw": "\xff\xfe\n"}, "is not JSON"),
    ({"at": "greeting", "endless": "a", "apart_s": 0.01}, "did not begin within|not whole after"),
    ({"at": "greeting", "endless": "a" * 8192}, "more than 4096 bytes"),
    ({"at": "greeting", "then": "sleep"}, "did not begin within"),
    ({"at": "greeting", "then": "close"}, "its agent closed its pipe"),
    ({"at": "greeting", "then": "exit"}, "its agent ended"),
    ({"at": "greeting", "then": "chatter"}, "did not begin within|its agent"),
    ({"at": "greeting", "then": "children"}, "is not JSON"),
    ({"at": "survey", "answer": []}, "its answer to 'survey' is a list of 0"),
    ({"at": "survey", "answer": "x"}, "its answer to 'survey' is 'x'"),
    ({"at": "survey", "document": {}}, "a message about 'survey'"),
    ({"at": "survey", "document": {"error": {"kind": "machine", "says": "no\n\x1b[31m", "errno": 5}}}, "cannot fail"),
    *[(fault, "memory.total_bytes") for fault in wrong("survey", "memory.total_bytes", -5, HUGE, 1e30)],
    ({"at": "survey", "path": "hostname", "value": "n" * 100_000}, "hostname is"),
]
IN_RUN: list[tuple[Fault, str]] = [
    # requests that were not made
    ({"at": "clock", "raw": '{"id": 99999, "answer": {"ns": 1}}\n', "times": 1_000_000}, "request 99999, which"),
    ({"at": "clock", "raw": '{"id": null, "error": {"kind": "usage", "says": "x", "errno": null}}\n'}, "request None"),
    ({"at": "clock", "raw": '{"id": [1], "answer": {}}\n'}, r"request \[1\]"),
    ({"at": "clock", "raw": '{"id": true, "answer": {}}\n'}, "request True"),
    ({"at": "clock", "raw": '{"id": NUMBER, "answer": {"ns": 1}}\n' * 2}, "which was not made"),
    ({"at": "clock", "raw": "{}\n", "times": 1_000_000}, "request None"),
    ({"at": "clock", "raw": "[]\n"}, "a message is a list"),
    ({"at": "clock", "raw": "FILL", "fill": ["\n", 1_000_000]}, "a message is not JSON"),
    ({"at": "clock", "raw": '{"id": NUMBER, "answer": {"ns": 1}, "error": null}\n'}, "a message about 'clock' with"),
    # lines
    ({"at": "clock", "endless": "a" * 65536}, "a message has more than"),
    ({"at": "clock", "endless": "a", "apart_s": 0.01}, "did not answer within|not whole after"),
    ({"at": "start", "endless": "a" * 65536}, "a message has more than"),
    ({"at": "start", "endless": " ", "apart_s": 0.01}, "has not answered for|not whole after"),
    ({"at": "clock", "raw": "[" * 100_000 + "\n"}, "nested too deep"),
    ({"at": "clock", "raw": '{"a":' * 1000 + "1" + "}" * 1000 + "\n"}, "nested"),
    ({"at": "start", "raw": '{"id": NUMBER, "answer": [FILL0]}\n', "fill": ["[],", 6_000_000]}, "is no JSON, or"),
    # a clock
    *[(fault, "its answer to 'clock'.ns is") for fault in wrong("clock", "ns", -1, HUGE, 1.5, "1", None, True, [1])],
    ({"at": "clock", "path": "ns"}, "has no ns"),
    ({"at": "clock", "raw": '{"id": NUMBER, "answer": {"ns": NaN}}\n'}, "out of range"),
    ({"at": "clock", "raw": '{"id": NUMBER, "answer": {"ns": ' + "9" * 5000 + "}}\n"}, "is not JSON|out of range"),
    ({"at": "clock", "answer": {"ns": 1, "us": 1}}, "unknown field 'us'"),
    ({"at": "clock", "then": "sleep"}, "did not answer within"),
    ({"at": "clock", "then": "close"}, "its agent"),
    ({"at": "clock", "then": "exit"}, "its agent ended"),
    # what it declares
    *[
        (fault, "its answer to 'kernels'")
        for fault in [
            {"at": "kernels", "answer": {}},
            {"at": "kernels", "answer": [7]},
            *wrong("kernels", "0.writes", "everything", 7, None),
            *wrong("kernels", "0.parameters.0.role", "king"),
            *wrong("kernels", "0.parameters.0.type", "pointer", 3),
            *wrong("kernels", "0.parameters.0.max", "x"),
            *wrong("kernels", "0.pass", [["bytes"]], [[1, 2]], {"bytes": 1}),
            *wrong("kernels", "0.name", 7, "", None),
            *wrong("kernels", "0.more", 7),
            *missing_field("kernels", "0.name", "0.parameters.0.default", "0.stateful"),
        ]
    ],
    # counters
    *[
        (fault, "its answer to 'snapshot'")
        for fault in [{"at": "snapshot", "answer": []}, {"at": "snapshot", "answer": {"proc/stat": [1]}}]
    ],
    ({"at": "snapshot", "document": {"error": {"kind": "machine", "says": "x", "errno": 5}}}, "cannot fail"),
    # files
    *[(fault, "its answer to 'claim'") for fault in wrong("claim", "free_bytes", -1, HUGE, "x", None)],
    *[(fault, "its answer to 'claim'") for fault in wrong("claim", "data", 7, "", "/" + "d" * 5000)],
    *[(fault, "its answer to 'claim'") for fault in missing_field("claim", "size_bytes", "directory")],
    ({"at": "size", "answer": {"bytes": -4096}}, "its answer to 'size'.bytes is -4096"),
    ({"at": "size", "answer": 5}, "its answer to 'size' is 5"),
    # a run
    ({"at": "run", "raw": '{"id": NUMBER, "ready": true}\n', "times": 1_000_000}, "'ready' "),
    ({"at": "run", "document": {"ready": False}}, "'ready' to 'run'"),
    ({"at": "run", "document": {"ready": True, "answer": {}}}, "a message about 'run' with"),
    ({"at": "clock", "document": {"ready": True}}, "'ready' to 'clock'"),
    ({"at": "run", "document": {"error": "no"}}, "its error is 'no'"),
    ({"at": "run", "document": {"error": {"kind": "other", "says": "x", "errno": 1}}}, "its error.kind is 'other'"),
    ({"at": "run", "document": {"error": {"kind": "machine", "says": 1, "errno": 1}}}, "its error.says is 1"),
    ({"at": "run", "document": {"error": {"kind": "machine", "says": "x", "errno": "5"}}}, "its error.errno is '5'"),
    ({"at": "run", "document": {"error": {"kind": "machine", "says": "x", "errno": HUGE}}}, "its error.errno is"),
    ({"at": "run", "document": {"error": {"kind": "machine", "says": "x"}}}, "its error has no errno"),
    ({"at": "run", "then": "sleep"}, "has not answered for"),
    ({"at": "start", "then": "exit"}, "its agent ended"),
    # a reading
    ({"at": "start", "answer": {}}, "has no reading"),
    ({"at": "start", "answer": {"status": 0, "stdout": "", "stderr": "", "cpu_s": 0}}, "its answer to 'run'"),
    *[
        (fault, "its answer to 'run'")
        for fault in [
            *wrong("start", "started_ns", -1, HUGE, "x", 1.5),
            *wrong("start", "reading", [], None, 7),
            *wrong("start", "reading.elapsed_s", -1, "x", None, True, 1e200),
            *wrong("start", "reading.streams", {}, None, [7], [{}]),
            *wrong("start", "reading.streams.0.operations", -1, HUGE, 1.5, "x", None),
            *wrong("start", "reading.streams.0.latency_ns", [], None, {"total": 7}, {"total": {}}),
            *wrong("start", "reading.streams.0.latency_ns.total.count", -1, HUGE),
            *wrong("start", "reading.streams.0.latency_ns.total.sub_bits", 3, "x"),
            *wrong("start", "reading.streams.0.latency_ns.total.sum", 0, -1),
            *wrong("start", "reading.streams.0.latency_ns.total.max", 0),
            *wrong("start", "reading.streams.0.latency_ns.total.packed", 7, None),
            *wrong("start", "reading.samples", [], None, {}),
            *wrong("start", "reading.samples.operations", [7], [[-1]], [["x"]], [[1.5]], [[HUGE]], [[True]], None),
            *wrong("start", "reading.samples.interval_s", -1, "x", None),
            *wrong("start", "reading.cpu", [], {"user_s": "x"}, {"user_s": -1}, None),
            *wrong("start", "reading.counters", [], {"x": "y"}, None),
            *wrong("start", "reading.faults", {}, [7], [{"operation": "read"}], None),
            *wrong("start", "reading.notes", {}, [7], [{"code": 1, "says": 2}], None),
            *wrong("start", "reading.details", [], None, 7),
            *wrong("start", "reading.parameters", [], None, 7),
            *wrong("start", "reading.interrupted", 1, None, "no"),
            *wrong("start", "reading.more", 1),
            *missing_field("start", "reading.kernel", "reading.samples", "reading.streams.0.bytes", "started_ns"),
        ]
    ],
    *[
        (fault, "histogram")
        for fault in wrong(
            "start", "reading.streams.0.latency_ns.total.packed", "zz", "00", "ffffffff01000000", "0" * 16, ""
        )
    ],
    ({"at": "start", "path": "reading.kernel", "value": "idle"}, "a reading of another kernel"),
    ({"at": "start", "path": "reading.elapsed_s", "value": 1e8}, "a reading of 1e[+]08 s within"),
    *[({"at": "start", "path": "started_ns", "value": at}, "not in this reading") for at in (0, 1 << 62)],
]  # fmt: skip
NO_FAULTS: list[Fault] = [
    {"at": "start", "path": "reading.samples.interval_s", "value": 1e-12},
    {"at": "start", "path": "reading.details", "value": {"layers": "x", "verification": 7, "cpus": {"a": []}}},
    {"at": "start", "path": "reading.details", "value": dict.fromkeys(("latency_ns", "isa"), "x")},
    {"at": "start", "path": "reading.parameters", "value": {}},
    {"at": "start", "path": "reading.streams", "value": []},
    {"at": "start", "path": "reading.notes", "value": [{"code": "\x1b[31m", "says": "\x1b[2J\n\n"}]},
    {"at": "start", "path": "reading.elapsed_s", "value": 0},
    {"at": "start", "document": {"error": {"kind": "machine", "says": "no space\n\x1b[31m" * 99, "errno": 28}}},
    {"at": "run", "document": {"error": {"kind": "usage", "says": "", "errno": None}}},
    {"at": "snapshot", "answer": {"proc/stat": "cpu -1 nan inf 1e999 x\n", "proc/loadavg": "nan"}},
    {"at": "snapshot", "answer": {}},
    {"at": "nothing", "stays": True},
    {"at": "clock", "then": "deaf", "nth": 9},
]  # fmt: skip
"""Messages that are not wrong by their form: each leaves a Run that can be stored, judged and shown."""
