"""What the documents of a run of the KV cache state: its options, and what its commands set for each."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from hwdyno.formats.mlpstorage_runs.documents import Documents
from hwdyno.model.units import as_number

MAX_COMMANDS = 100
"""Three options with three trials have nine."""
_OPTION = re.compile(r"/option_(\d)/trial_\d+")
_SETTING = re.compile(
    r"--(model|num-users|duration|gpu-mem-gb|cpu-mem-gb|max-concurrent-allocs|generation-mode)[ =](\S+)"
)


def state_kv_facts(found: Documents) -> dict[str, object]:
    """Options, settings, and the options of which results are missing or come from memory."""
    stated = found.value("summary.options")
    options = dict[str, Mapping[str, object]]()
    if isinstance(stated, Mapping):
        options = {str(name): table for name, table in stated.items() if isinstance(table, Mapping)}
    results = {
        name: (as_number(table.get("rank_count")) or 0) * (as_number(table.get("trial_count")) or 1)
        for name, table in options.items()
    }
    cached = {name: table.get("cpu_tier_ranks") for name, table in options.items()}
    commands = _list_commands(found)
    return {
        "options": tuple(sorted(options)),
        "trials": found.number("summary.trials_per_option", "summary.trials", "metadata.args.trials"),
        "seed": found.number("metadata.args.seed"),
        "pause_s": found.number("metadata.args.inter_option_delay"),
        "option_settings": _list_settings(commands),
        "autoscaling": _find_autoscaling(found, commands),
        "from_memory": tuple(
            name
            for name, flags in cached.items()
            if isinstance(flags, list) and results[name] and len(flags) >= results[name]
        ),
        "incomplete": tuple(
            f"{name}{_count_missing(table, results[name])}"
            for name, table in options.items()
            if table.get("partial_failure") is True
        ),
    }


def _count_missing(option: Mapping[str, object], results: float) -> str:
    """`` (24 of 48)``: how many results of ranks are missing; empty where they are not listed."""
    missing = option.get("missing_files")
    return f" ({len(missing)} of {results:.0f})" if isinstance(missing, list) and missing and results else ""


def _list_commands(found: Documents) -> list[str]:
    """The commands that ran the benchmark, one for each option and trial."""
    stated = found.value("metadata.command_output_files")
    rows = stated[:MAX_COMMANDS] if isinstance(stated, list) else []
    commands = [row.get("command") for row in rows if isinstance(row, Mapping)]
    return [command for command in commands if isinstance(command, str)]


def _list_settings(commands: Sequence[str]) -> tuple[str, ...]:
    found = set()
    for command in commands:
        if (option := _OPTION.search(command)) is not None:
            found |= {f"{option[1]} {name} {value[:40]}" for name, value in _SETTING.findall(command)}
    return tuple(sorted(found))


def _find_autoscaling(found: Documents, commands: Sequence[str]) -> bool | None:
    """Whether autoscaling was on; the arguments of a CLOSED run have its default, which no command takes over."""
    if commands:
        return any("--enable-autoscaling" in command for command in commands)
    return False if found.value("metadata.args.enable_autoscaling") is False else None
