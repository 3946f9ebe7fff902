"""Measures on request: ``run`` the default experiments or a plan, ``measure`` what one command does."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterable, Mapping
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any, Literal, overload

from hwdyno import session
from hwdyno.api.api_run import Run
from hwdyno.api.following import Cancellation, Follower, ProgressEvent
from hwdyno.api.outcomes import StoppedError, one_family
from hwdyno.model.words import UserError
from hwdyno.system import signals

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from hwdyno.api import options as typed
    from hwdyno.measure.hosts import Host
    from hwdyno.measure.scenarios import Option as KindOption
    from hwdyno.measure.scenarios import Request

Option = str | int | float | bool | Path | Iterable[Any] | None
"""A value of an option: one or many; none and ``False`` for a switch leave it out."""

SHARED = ("path", "profile", "peers", "seed", "budget", "ceiling", "link", "device", "store")
"""Options of every command."""
FIELDS = {"load", "destroy", "serial", "only"}
"""Those of some commands which are neither an axis nor a scenario's."""
REPEATED = {"ceiling", "link", "device"}
"""Those of which a command line has one for each value."""
ELSEWHERE = {
    ("storage", "job"): "has its own output",
    ("storage", "snia"): "has its own output",
    ("storage", "check"): "has its own output",
    ("network", "server"): "serves until it is stopped",
    ("object", "server"): "serves until it is stopped",
}
"""What follows a command on its line and gives no Run, with the reason."""


@one_family()
def run(plan: str | Path | None = None, **options: Unpack[typed.RunOptions]) -> Run:
    """Characterize this machine, as ``hwdyno run``: by the default experiments, those of ``only``, or a plan file.

    ``budget`` is a time such as ``"10m"``. ``quiet=False`` shows progress on stderr, and ``progress`` is called between
    readings. Raises ``UserError`` before anything is measured; what goes wrong later degrades the Run. Ctrl-C or
    ``cancellation`` gives a partial Run.
    """
    from hwdyno.measure.scenarios import PlanFile

    only, path, seed = options.get("only"), options.get("path"), options.get("seed")
    limits = {"ceilings": options.get("ceiling"), "links": options.get("link"), "devices": options.get("device")}
    replaces = {
        **{"profile": options.get("profile"), "path": None if path is None else ",".join(_texts(path))},
        **{"peers": options.get("peers") or None, "budget": options.get("budget")},
        **{"seed": None if seed is None else _whole_number("seed", seed)},
        **{key: _texts(value) or None for key, value in limits.items()},
    }
    names = [] if only is None else [name for text in _texts(only) for name in text.split(",")]
    more: dict[str, Any] = {"experiments": tuple(names)}
    if plan is not None:
        more["plan_file"] = PlanFile(Path(plan), replaces)
    return _measure_command("run", [] if plan is None else [plan], dict(options), **more)


@overload
def measure(command: Literal["storage"], /, *tests: str, **options: Unpack[typed.StorageOptions]) -> Run: ...
@overload
def measure(command: Literal["memory"], /, *tests: str, **options: Unpack[typed.MemoryOptions]) -> Run: ...
@overload
def measure(command: Literal["compute"], /, *tests: str, **options: Unpack[typed.ComputeOptions]) -> Run: ...
@overload
def measure(command: Literal["gpu"], /, *tests: str, **options: Unpack[typed.GpuOptions]) -> Run: ...
@overload
def measure(command: Literal["network"], /, *tests: str, **options: Unpack[typed.NetworkOptions]) -> Run: ...
@overload
def measure(command: Literal["object"], /, **options: Unpack[typed.ObjectOptions]) -> Run: ...
@overload
def measure(command: Literal["training"], /, **options: Unpack[typed.TrainingOptions]) -> Run: ...
@overload
def measure(command: Literal["inference"], /, **options: Unpack[typed.InferenceOptions]) -> Run: ...
@overload
def measure(command: Literal["together"], /, **options: Unpack[typed.TogetherOptions]) -> Run: ...
@overload
def measure(command: Literal["study"], name: str, /, **options: Unpack[typed.StudyOptions]) -> Run: ...
@one_family()
def measure(command: str, /, *tests: str, **options: Any) -> Run:
    """Measure what one command does: ``measure("storage", "iodepth")`` is ``hwdyno storage iodepth``.

    ``measure("storage", rw="randread", bs="4k")``, ``measure("memory", operation="triad", threads=[1, 2])``
    and ``measure("object", endpoint="http://192.0.2.7:9000", bucket="bench")`` sweep.
    ``measure("study", "sata-ssd-queue")`` reproduces a published study.
    The options are the command's, and those of ``run`` but ``only``; so are what it raises and its end.
    """
    from hwdyno.measure.scenarios.entry import is_swept
    from hwdyno.system.suggestions import hint

    if command not in MEASURED:
        raise UserError(f"nothing is measured by the name {command}; {hint(str(command), MEASURED)}")
    if why := ELSEWHERE.get((command, tests[0] if tests else "")):
        raise UserError(f"hwdyno {command} {tests[0]} {why}; run it on the command line")
    if command == "study" and len(tests) != 1:
        raise UserError("name one study, such as measure('study', 'sata-ssd-queue')")
    if tests and command != "study" and not is_swept(command):
        raise UserError(f"{command} takes no test called '{tests[0]}'; its options choose what is measured")
    return _measure_command(command, tests, options)


class _MeasurePackage(ModuleType):
    """The package ``hwdyno.measure``, whose name in ``hwdyno`` is the function's too."""

    def __call__(self, command: str, /, *tests: str, **options: Any) -> Run:
        call: Callable[..., Run] = measure
        return call(command, *tests, **options)


import_module("hwdyno.measure").__class__ = _MeasurePackage

MEASURED = (
    *("storage", "memory", "compute", "gpu", "network", "object", "training", "inference", "together", "study"),
)
"""The commands that ``measure`` takes."""


def _measure_command(command: str, words: Iterable[object], options: Mapping[str, Any], **more: Any) -> Run:
    """Measure what a command's options request, and give the Run."""
    from hwdyno.cli import progress
    from hwdyno.measure.scenarios import make_scenario
    from hwdyno.system.store import open_store

    callback: Callable[[ProgressEvent], object] | None = options.get("progress")
    cancellation: Cancellation = options.get("cancellation") or Cancellation()
    quiet = _switch("quiet", options.get("quiet", True))
    requested = {name: value for name, value in options.items() if name not in {"progress", "cancellation", "quiet"}}
    host = session.this_site()
    request = _request(command, [str(word) for word in words], requested, host, more)
    store = open_store(None if options.get("store") is None else str(options["store"]))
    follower = Follower(progress.choose_progress(quiet), callback, cancellation.request)
    try:
        with signals.ended_by(cancellation.request):
            measured = session.measure_scenario(make_scenario(request, host), host, store, follower)
    except KeyboardInterrupt as stop:
        if follower.failure is not None:
            raise follower.failure from None
        if cancellation.is_cancelled:
            raise StoppedError(str(stop) or "cancelled before anything was measured") from None
        raise KeyboardInterrupt(str(stop)) from None
    if follower.failure is not None:
        raise follower.failure
    return Run.from_document(measured)


def option_names(command: str, host: Host) -> set[str]:
    """The names of a command's options."""
    from hwdyno.measure.scenarios import of_command
    from hwdyno.measure.scenarios.entry import Swept, is_swept, merge_axes, swept_by

    kinds, kernels = of_command(command), host.kernels()
    swept = [swept_by(command)] if is_swept(command) else []
    swept += [Swept((kind.kernel,), frozenset(kind.hidden)) for kind in kinds if kind.kernel]
    names = {*SHARED, *(name for kernel_axes in swept for name in merge_axes(kernel_axes, kernels))}
    names |= {name for kind in kinds for option in kind.options if (name := _python_name(option.flag))}
    names |= {"load"} if swept else set()
    names |= {"only"} if command == "run" else set()
    return names | ({"destroy", "serial"} if command == "storage" else set())


def _request(
    command: str, words: list[str], options: Mapping[str, Option], host: Host, more: Mapping[str, Any]
) -> Request:
    """The request of a command by its options; raises ``UserError`` for an unknown one or one of the wrong type.

    ``more`` has fields of the request that no option sets.
    """
    from hwdyno.measure.plan import Limits
    from hwdyno.measure.scenarios import Request, of_command, parse_place
    from hwdyno.measure.scenarios.entry import is_swept
    from hwdyno.model.units import parse_duration
    from hwdyno.system.suggestions import similar

    known, kinds = option_names(command, host), of_command(command)
    of_scenarios = [option for kind in kinds for option in kind.options]
    by_name = {name: option for option in of_scenarios if (name := _python_name(option.flag))}
    given = {name: value for name, value in options.items() if value is not None}
    for name in given:
        if name not in known:
            raise UserError(f"unknown option {name}{similar(name, known)}")
    line = [*words, *(word for name, value in given.items() for word in _words(name, value, by_name.get(name)))]

    def text(name: str, default: str = "") -> str:
        return ",".join(_texts(given[name])) if name in given else default

    return Request(
        **{
            "name": command,
            "places": tuple(map(parse_place, _texts(given.get("path", ".")))),
            "command": shlex.join(["hwdyno", command, *line]),
            "experiments": tuple(words) if is_swept(command) else (),
            "profile": text("profile", "quick"),
            "axes": {name: text(name) for name in given if name not in {*SHARED, *by_name, *FIELDS}},
            "load": text("load") or None,
            "peers": _switch("peers", given.get("peers", False)),
            "seed": _whole_number("seed", given["seed"]) if "seed" in given else None,
            "budget_s": parse_duration(text("budget")) if "budget" in given else None,
            "limits": Limits(*(tuple(_texts(given.get(name, ()))) for name in ("ceiling", "link", "device"))),
            "study": words[0] if command == "study" else "",
            **{"destroy": text("destroy"), "serial": text("serial")},
            "options": {option.name: _value(option, given.get(_python_name(option.flag))) for option in of_scenarios},
            **more,
        }
    )


def _python_name(flag: str) -> str:
    """The name of an option here; empty for words without one."""
    return flag.removeprefix("--").replace("-", "_") if flag.startswith("-") else ""


def _texts(value: Option) -> list[str]:
    """The values of an option, as a command line has them."""
    values = list(value) if isinstance(value, Iterable) and not isinstance(value, str) else [value]
    return [str(int(part)) if isinstance(part, bool) else str(part) for part in values if part is not None]


def _words(name: str, value: Option, option: KindOption | None) -> list[str]:
    """The words of a command line for an option."""
    flag = f"--{name.replace('_', '-')}"
    if name == "peers" or (option is not None and option.kind is bool):
        return [flag] if value is True else []
    if name in REPEATED or (option is not None and option.is_list):
        return [word for text in _texts(value) for word in (flag, text)]
    text = ",".join(_texts(value))
    return [f"{flag}={text}"] if text.startswith("-") else [flag, text]


def _switch(name: str, value: Option) -> bool:
    if not isinstance(value, bool):
        raise UserError(f"{name} = {value!r}: must be True or False")
    return value


def _whole_number(name: str, value: Option) -> int:
    text = str(value)
    if isinstance(value, bool) or not text.isdecimal():
        raise UserError(f"{name} = {value!r}: must be a whole number, 0 or more")
    return int(text)


def _value(option: KindOption, value: Option) -> Any:
    """The value of a scenario's option by its type; raises ``UserError``."""
    name = _python_name(option.flag)
    if option.kind is bool:
        return _switch(name, value or False)
    if value is None:
        return [] if option.is_list or not name else option.default
    if option.kind in {int, float}:
        try:
            return option.kind(str(value))
        except ValueError:
            raise UserError(f"{name} = {value!r}: must be a number") from None
    return _texts(value) if option.is_list else option.kind(",".join(_texts(value)))
