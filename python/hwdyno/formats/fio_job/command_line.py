"""Reads a command line of fio as a job file: the options before the first ``--name`` are shared by all jobs."""

from __future__ import annotations

from collections.abc import Sequence

from hwdyno.model.words import UserError

_FLAGS = {
    *("time_based", "group_reporting", "thread", "norandommap", "stonewall", "wait_for_previous", "new_group"),
    *("exitall", "exitall_on_error", "hipri", "sqthread_poll", "registerfiles", "fixedbufs", "nonvectored"),
}
"""Keys that fio takes without a value (its type STR_SET)."""
_OF_THE_PROGRAM = {
    *("output", "output-format", "eta", "eta-newline", "eta-interval", "minimal", "append-terse", "terse-version"),
    *("status-interval", "warnings-fatal", "max-jobs", "readonly", "bandwidth-log", "aux-path", "alloc-size"),
    *("merge-blktrace-only", "idle-prof", "inflate-log", "debug", "parse-only", "section"),
}
"""Options of fio itself that change no reading; ``section`` and ``parse-only`` change what runs."""
_PROGRAM_FLAGS = {"minimal", "append-terse", "readonly", "bandwidth-log", "warnings-fatal", "merge-blktrace-only"}
_CHANGES = {"section", "parse-only", "merge-blktrace-only"}


def make_job_file(words: Sequence[str]) -> str:
    """The job file that ``fio --name=… --rw=…`` means. Raises ``UserError``."""
    remaining = list(words[1:] if words and words[0].rpartition("/")[2] == "fio" else words)
    lines = ["[global]"]
    while remaining:
        word = remaining.pop(0)
        if not word.startswith("-"):
            raise UserError(
                f"'{word}' is a job file among fio's options; run `hwdyno storage job {word}`, or leave it out"
            )
        name, equals, value = word.lstrip("-").partition("=")
        is_flag = name in _FLAGS | _PROGRAM_FLAGS
        if not equals and not is_flag:
            if not remaining or remaining[0].startswith("--"):
                raise UserError(f"--{name} has no value; write --{name}=VALUE")
            value = remaining.pop(0)
        if name in _CHANGES or name in {"client", "server", "daemonize", "trigger", "trigger-file"}:
            raise UserError(f"--{name} is an option of fio's program that changes what runs; leave it out")
        if name in _OF_THE_PROGRAM:
            continue
        if any(letter in value for letter in "#;\n"):
            raise UserError(f"--{name}={value}: a job file has no such value; leave out '#', ';' and line breaks")
        if name == "name":
            lines.append(f"[{value}]")
        else:
            lines.append(f"{name}={value}" if equals or not is_flag else name)
    if not any(line.startswith("[") and line != "[global]" for line in lines):
        lines.append("[fio]")
    return "\n".join(lines) + "\n"
