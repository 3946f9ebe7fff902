"""hwdyno from Python: a function for each measuring command, with the command line's own names, that gives the Run.

``run = hwdyno.run(only="storage", path="/data")`` is ``hwdyno run --only storage --path /data``. An option's dashes are
underscores here, an axis takes one value or a list, and a switch takes ``True``. What a command refuses in one line is
a ``UserError``. The Run is kept in the store as by the command; no report is printed and no page is written.
"""

from __future__ import annotations

import argparse
import importlib
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from hwdyno.model.words import Curve, Run, UserError
from hwdyno.report import notebook

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

NO_OPTIONS = (
    "dry_run",
    "json",
    "verbose",
    "out",
    "overwrite",
    "plan_for",
    "with_names",
    "no_page",
    "fail_under",
    "summary",
    "output_format",
    "help",
)
"""Options that say what a command prints and writes: there is no report here."""

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
    """Characterize this machine, as ``hwdyno run``: by the usual experiments, those of ``only``, or a plan file.

    ``budget`` is a time such as ``"10m"``. ``quiet=False`` shows progress on stderr. Raises ``UserError`` before
    anything is measured; what goes wrong later degrades the Run. Ctrl-C gives a partial Run.
    """
    return _measured(
        "run",
        [] if plan is None else [plan],
        only=only,
        path=path,
        profile=profile,
        peers=peers,
        seed=seed,
        budget=budget,
        ceiling=ceiling,
        link=link,
        device=device,
        store=store,
        quiet=quiet,
    )


def storage(*experiments: str, path: str | Path | None = None, quiet: bool = True, **options: Option) -> Run:
    """Measure storage, as ``hwdyno storage``: ``storage("iodepth", path=".")``, ``storage(rw="randread", bs="4k")``."""
    if experiments[:1] in {("job",), ("snia",), ("check",)}:
        raise UserError(f"hwdyno storage {experiments[0]} has its own output; run it on the command line")
    return _measured("storage", experiments, path=path, quiet=quiet, **options)


def memory(*experiments: str, quiet: bool = True, **options: Option) -> Run:
    """Measure memory, as ``hwdyno memory``: ``memory("latency")``, ``memory(operation="triad", threads=[1, 2])``."""
    return _measured("memory", experiments, quiet=quiet, **options)


def compute(*experiments: str, quiet: bool = True, **options: Option) -> Run:
    """Measure arithmetic, as ``hwdyno compute``: ``compute("linpack")``, ``compute(precision="double,single")``."""
    return _measured("compute", experiments, quiet=quiet, **options)


def gpu(*experiments: str, quiet: bool = True, **options: Option) -> Run:
    """Measure a GPU, as ``hwdyno gpu``: ``gpu("bandwidth")``, ``gpu(precision="single,double", on="gpu1")``."""
    return _measured("gpu", experiments, quiet=quiet, **options)


def network(*experiments: str, quiet: bool = True, **options: Option) -> Run:
    """Measure the network, as ``hwdyno network``: ``network(server="192.0.2.7", streams=[1, 2, 4])``."""
    if experiments[:1] == ("server",):
        raise UserError("hwdyno network server serves until it is stopped; run it on the command line")
    return _measured("network", experiments, quiet=quiet, **options)


def training(*, path: str | Path | None = None, quiet: bool = True, **options: Option) -> Run:
    """Measure storage for AI, as ``hwdyno training``: ``training(workload="unet3d", accelerators=[1, 2])``."""
    return _measured("training", [], path=path, quiet=quiet, **options)


def inference(*, path: str | Path | None = None, quiet: bool = True, **options: Option) -> Run:
    """Measure what a model server gets, as ``hwdyno inference``: ``inference(kv_cache="llama3.1-8b", users=4)``."""
    return _measured("inference", [], path=path, quiet=quiet, **options)


def together(
    *,
    resources: str | Iterable[str] | None = None,
    at: str | Iterable[str] | None = None,
    path: str | Path | None = None,
    quiet: bool = True,
    **options: Option,
) -> Run:
    """Measure what resources cost each other, as ``hwdyno together``."""
    return _measured("together", [], resources=resources, at=at, path=path, quiet=quiet, **options)


def study(name: str, *, quiet: bool = True, **options: Option) -> Run:
    """Reproduce a published study, as ``hwdyno study NAME``."""
    return _measured("study", [name], quiet=quiet, **options)


def load(name: str | Path = "last", store: str | Path | None = None) -> Run:
    """A stored Run by its id, the latest one, or a file: a Run document, or another tool's result (fio's JSON)."""
    from hwdyno.cli.sources import loaded

    return loaded(str(name), None if store is None else str(store))


def _measured(command: str, words: Iterable[object], **options: Option) -> Run:
    """Read the options as the command line would, measure, and give the Run."""
    from hwdyno.cli import common
    from hwdyno.cli.main import parser_of
    from hwdyno.measure.scenarios import Interrupted, Scenario

    parser = parser_of(command)
    parser.raises = True
    quiet = bool(options.pop("quiet", True))
    args = parser.read([*map(str, words), *typed_options(parser, options)])
    args.quiet = quiet
    host = common.this_machine()
    what = importlib.import_module(f"hwdyno.cli.{command}").planned(args, host)
    scenario = what if isinstance(what, Scenario) else Scenario(plan=what)
    try:
        return common.measured(scenario, args, host)
    except Interrupted as stop:
        raise KeyboardInterrupt(str(stop)) from None


def typed_options(parser: argparse.ArgumentParser, options: dict[str, Option]) -> list[str]:
    """The words of a command line for options by their Python names; raises ``UserError`` for an unknown one."""
    from hwdyno.system.suggestions import similar

    known = {
        name.removeprefix("--").replace("-", "_"): action
        for action in parser._actions
        for name in action.option_strings
        if name.startswith("--")
    }
    usable = {name: action for name, action in known.items() if name not in NO_OPTIONS}
    words: list[str] = []
    for name, value in options.items():
        if name not in usable:
            raise UserError(f"unknown option {name}{similar(name, usable)}")
        action, flag = usable[name], f"--{name.replace('_', '-')}"
        if action.nargs == 0:
            if not isinstance(value, bool):
                raise UserError(f"{name} = {value!r}: must be True or False")
            words += [flag] if value else []
            continue
        values = list(value) if isinstance(value, Iterable) and not isinstance(value, str) else [value]
        texts = [str(int(one)) if isinstance(one, bool) else str(one) for one in values if one is not None]
        if isinstance(action, argparse._AppendAction):
            words += [word for one in texts for word in (flag, one)]
        elif texts:
            one = ",".join(texts)
            words += [f"{flag}={one}"] if one.startswith("-") else [flag, one]
    return words
