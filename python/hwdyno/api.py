"""hwdyno from Python: a function for each measuring command, with the command line's own names, that gives the Run.

``run = hwdyno.run(only="storage", path="/data")`` is ``hwdyno run --only storage --path /data``. An option's dashes are
underscores here, an axis takes one value or a list, and a switch takes ``True``. What a command refuses in one line is
a ``UserError``. The Run is kept in the store as by the command; no report is printed and no page is written.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hwdyno import session
from hwdyno.model.words import Curve, Run, UserError
from hwdyno.report import notebook

if TYPE_CHECKING:
    from hwdyno.measure.hosts import Host
    from hwdyno.measure.scenarios import Option as KindOption
    from hwdyno.measure.scenarios import Request

__all__ = [
    "Curve",
    "Run",
    "UserError",
    "compute",
    "gpu",
    "inference",
    "load",
    "memory",
    "network",
    "run",
    "storage",
    "study",
    "together",
    "training",
]

Option = str | int | float | bool | Path | Iterable[Any] | None
"""A value of an option: one or many; none and ``False`` for a switch leave it out."""

SHARED = ("path", "profile", "peers", "seed", "budget", "ceiling", "link", "device", "store")
"""Options of every command."""
FIELDS = {"load", "destroy", "serial", "only"}
"""Those of some commands which are neither an axis nor a scenario's."""
REPEATED = {"ceiling", "link", "device"}
"""Those of which a command line has one for each value."""

notebook.show(Run, Curve)


def run(
    plan: str | Path | None = None,
    *,
    only: str | Iterable[str] | None = None,
    path: str | Path | None = None,
    profile: str | None = None,
    peers: bool = False,
    seed: int | None = None,
    budget: str | None = None,
    ceiling: str | Iterable[str] = (),
    link: str | Iterable[str] = (),
    device: str | Iterable[str] = (),
    store: str | Path | None = None,
    quiet: bool = True,
) -> Run:
    """Characterize this machine, as ``hwdyno run``: by the default experiments, those of ``only``, or a plan file.

    ``budget`` is a time such as ``"10m"``. ``quiet=False`` shows progress on stderr. Raises ``UserError`` before
    anything is measured; what goes wrong later degrades the Run. Ctrl-C gives a partial Run.
    """
    from hwdyno.measure.scenarios import PlanFile

    limits = {"ceilings": ceiling, "links": link, "devices": device}
    replaces = {
        **{"profile": profile, "path": None if path is None else str(path), "peers": peers or None},
        **{"seed": None if seed is None else _whole_number("seed", seed), "budget": budget},
        **{key: _texts(value) or None for key, value in limits.items()},
    }
    names = [] if only is None else [name for text in _texts(only) for name in text.split(",")]
    options: dict[str, Option] = {"only": only, "path": path, "profile": profile, "peers": peers, "seed": seed}
    options |= {"budget": budget, "ceiling": ceiling, "link": link, "device": device}
    more: dict[str, Any] = {"experiments": tuple(names)}
    if plan is not None:
        more["plan_file"] = PlanFile(Path(plan), replaces)
    return _measure_command("run", [] if plan is None else [plan], {**options, "store": store}, quiet, **more)


def storage(
    *experiments: str,
    path: str | Path | None = None,
    quiet: bool = True,
    **options: Option,
) -> Run:
    """Measure storage, as ``hwdyno storage``: ``storage("iodepth", path=".")``, ``storage(rw="randread", bs="4k")``."""
    if experiments[:1] in {("job",), ("snia",), ("check",)}:
        raise UserError(f"hwdyno storage {experiments[0]} has its own output; run it on the command line")
    return _measure_command("storage", experiments, {"path": path, **options}, quiet)


def memory(*experiments: str, quiet: bool = True, **options: Option) -> Run:
    """Measure memory, as ``hwdyno memory``: ``memory("latency")``, ``memory(operation="triad", threads=[1, 2])``."""
    return _measure_command("memory", experiments, options, quiet)


def compute(*experiments: str, quiet: bool = True, **options: Option) -> Run:
    """Measure arithmetic, as ``hwdyno compute``: ``compute("linpack")``, ``compute(precision="double,single")``."""
    return _measure_command("compute", experiments, options, quiet)


def gpu(*experiments: str, quiet: bool = True, **options: Option) -> Run:
    """Measure a GPU, as ``hwdyno gpu``: ``gpu("bandwidth")``, ``gpu(precision="single,double", on="gpu1")``."""
    return _measure_command("gpu", experiments, options, quiet)


def network(*experiments: str, quiet: bool = True, **options: Option) -> Run:
    """Measure the network, as ``hwdyno network``: ``network(server="192.0.2.7", streams=[1, 2, 4])``."""
    if experiments[:1] == ("server",):
        raise UserError("hwdyno network server serves until it is stopped; run it on the command line")
    return _measure_command("network", experiments, options, quiet)


def training(*, path: str | Path | None = None, quiet: bool = True, **options: Option) -> Run:
    """Measure storage for AI, as ``hwdyno training``: ``training(workload="unet3d", accelerators=[1, 2])``."""
    return _measure_command("training", [], {"path": path, **options}, quiet)


def inference(*, path: str | Path | None = None, quiet: bool = True, **options: Option) -> Run:
    """Measure what a model server gets, as ``hwdyno inference``: ``inference(kv_cache="llama3.1-8b", users=4)``."""
    return _measure_command("inference", [], {"path": path, **options}, quiet)


def together(
    *,
    resources: str | Iterable[str] | None = None,
    at: str | Iterable[str] | None = None,
    path: str | Path | None = None,
    quiet: bool = True,
    **options: Option,
) -> Run:
    """Measure what resources cost each other, as ``hwdyno together``."""
    return _measure_command("together", [], {"resources": resources, "at": at, "path": path, **options}, quiet)


def study(name: str, *, quiet: bool = True, **options: Option) -> Run:
    """Reproduce a published study, as ``hwdyno study NAME``."""
    return _measure_command("study", [name], options, quiet)


def load(name: str | Path = "last", store: str | Path | None = None) -> Run:
    """A stored Run by its id, the latest one, or a file: a Run document, or another tool's result (fio's JSON)."""
    from hwdyno.report.sources import load_run

    return load_run(str(name), None if store is None else str(store))


def _measure_command(
    command: str, words: Iterable[object], options: Mapping[str, Option], quiet: bool, **more: Any
) -> Run:
    """Measure what a command's options request, and give the Run."""
    from hwdyno.cli import progress
    from hwdyno.measure.scenarios import Interrupted, make_scenario
    from hwdyno.system.store import open_store

    host = session.this_site()
    request = _request(command, [str(word) for word in words], options, host, more)
    store = open_store(None if options.get("store") is None else str(options["store"]))
    try:
        return session.measure_scenario(make_scenario(request, host), host, store, progress.choose_progress(quiet))
    except Interrupted as stop:
        raise KeyboardInterrupt(str(stop)) from None


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
