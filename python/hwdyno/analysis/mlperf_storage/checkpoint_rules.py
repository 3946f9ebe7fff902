"""The rules of MLPerf Storage on checkpoints: how many, how large, by how many processes, and whether synced."""

from __future__ import annotations

from collections.abc import Sequence

from hwdyno.analysis.mlperf_storage.editions import edition_of_run
from hwdyno.analysis.mlperf_storage.judgement import Judgement, report_broken, report_closed, report_unknown
from hwdyno.analysis.mlperf_storage.run_facts import RunFacts
from hwdyno.analysis.mlperf_storage.training_rules import check_filesystems, check_paths
from hwdyno.model.units import format_bytes, format_duration, format_memory, format_ratio, plural

PROCESSES = {"llama3-8b": 8, "llama3-70b": 64, "llama3-405b": 512, "llama3-1t": 1024}
"""MPI processes of each model in CLOSED (Rules.md, Table 2)."""
SUBSET_PROCESSES = 8
CHECKPOINTS, MEMORIES = 10, 3
MAX_INVOCATIONS, MAX_PAUSE_S = 2, 30
MIN_PER_HOST = 4
"""Accelerators of each host in CLOSED."""


def check_checkpoints(runs: Sequence[RunFacts]) -> list[Judgement]:
    """The rules on one model's checkpoints, by its one or two invocations in the order of time."""
    return [
        *_check_counts(runs),
        *_check_pause(runs),
        *_check_sync(runs),
        *_check_cache(runs),
        *_check_model(runs),
        *_check_processes(runs),
        *_check_accelerator(runs),
        *check_paths("checkpointPathArgs", runs, "checkpoints"),
        *check_filesystems("checkpointFilesystemCheck", runs, "checkpoints"),
    ]


def _check_counts(runs: Sequence[RunFacts]) -> list[Judgement]:
    name, first = "checkpointCacheFlushValidation", runs[0]
    if any(facts.writes is None or facts.reads is None for facts in runs):
        return report_unknown(name, runs, "how many checkpoints were written and read")
    writes, reads = (int(sum(getattr(facts, kind) or 0 for facts in runs)) for kind in ("writes", "reads"))
    found = []
    if len(runs) > MAX_INVOCATIONS:
        found += report_broken(
            "checkpointingTimestamps", runs,
            f"{first.label}: there are {plural(len(runs), 'run')} instead of one, or of a writing and a reading one",
            "Keep the consecutive ones that make up 10 writes and 10 reads.", number=len(runs),
        )  # fmt: skip
    # OPEN may change the numbers.
    if (writes, reads) != (CHECKPOINTS, CHECKPOINTS) and len(runs) <= MAX_INVOCATIONS:
        found += report_closed(
            name, runs,
            f"{first.label}: the numbers of checkpoints written and read are {writes} and {reads}, instead of "
            f"{CHECKPOINTS} and {CHECKPOINTS}",
            "Write 10 checkpoints, then read 10, in one command or two.", writes=writes, reads=reads,
        )  # fmt: skip
    return found


def _check_pause(runs: Sequence[RunFacts]) -> list[Judgement]:
    """The time between the command that wrote and the one that read."""
    name = "checkpointCacheFlushValidation"
    writers = [facts for facts in runs if facts.writes and not facts.reads]
    readers = [facts for facts in runs if facts.reads and not facts.writes]
    if edition_of_run(runs[0]).document != "Rules.md" or len(writers) != 1 or len(readers) != 1:
        return []
    ended, began = writers[0].ended_s, readers[0].invoked_s
    if ended is None or began is None or began < ended:
        why = "is negative: clocks differ" if ended is not None and began is not None else "is not stated"
        return report_unknown(name, runs, f"the pause between writing and reading {why}")
    if began - ended <= MAX_PAUSE_S:
        return []
    return report_broken(
        name, runs,
        f"{runs[0].label}: {format_duration(began - ended)} are between writing and reading, more than {MAX_PAUSE_S} s",
        "Start the reading right after the writing, from one script.", pause_s=began - ended,
    )  # fmt: skip


def _check_sync(runs: Sequence[RunFacts]) -> list[Judgement]:
    name = "checkpointFsyncVerification"
    writers = [facts for facts in runs if facts.writes != 0]
    if not writers:
        return []
    off = [facts for facts in writers if facts.fsync is False]
    if off:
        return report_broken(
            name, runs, f"{off[0].label}: fsync is off, so checkpoints may have been written to memory alone",
            "Leave checkpoint.fsync on, as the workload's file has it.", off,
        )  # fmt: skip
    if any(facts.fsync is None for facts in writers):
        return report_unknown(name, runs, "whether fsync was on")
    return []


def _check_cache(runs: Sequence[RunFacts]) -> list[Judgement]:
    """What one command reads right after it wrote it may come from the hosts' memory, unless their caches were cleared.

    Whether they were is in no file; an object store's data are in none of them.
    """
    name = "checkpointDataSizeRatio"
    both = [facts for facts in runs if facts.writes and facts.reads and facts.storage_api != "object"]
    if not both:
        return []
    facts = both[0]
    if not facts.checkpoint_bytes or not facts.memory_bytes:
        return report_unknown(name, runs, "the hosts' memory or the checkpoints' size")
    written = facts.checkpoint_bytes * (facts.writes or 0)
    if written > MEMORIES * facts.memory_bytes:
        return []
    return report_unknown(
        name, runs,
        f"whether caches were cleared before reading: one command wrote {format_ratio(written / facts.memory_bytes, 3)}"
        f" times the hosts' {format_memory(facts.memory_bytes)} of memory, less than {MEMORIES}, and read it again",
    )  # fmt: skip


def _check_model(runs: Sequence[RunFacts]) -> list[Judgement]:
    first = runs[0]
    if not first.workload or first.workload in PROCESSES:
        return []
    return report_broken(
        "checkpointModelConfigurationReq", runs, f"{first.workload} is none of its models: {', '.join(PROCESSES)}",
        "Use one of the edition's models.", model=first.workload,
    )  # fmt: skip


def _check_processes(runs: Sequence[RunFacts]) -> list[Judgement]:
    first, wanted = runs[0], PROCESSES.get(runs[0].workload)
    found, subset = list[Judgement](), [facts for facts in runs if facts.mode == "subset"]
    wrong = [facts for facts in subset if facts.workload != "llama3-8b" or facts.accelerators != SUBSET_PROCESSES]
    if wrong:
        found += report_broken(
            "checkpointSubsetRunValidation", runs,
            f"{first.label}: a subset is defined for llama3-8b with {SUBSET_PROCESSES} accelerators, "
            f"and this has {wrong[0].accelerators or 0:.0f}",
            "Run the whole model.", wrong,
        )  # fmt: skip
    if wanted is None:
        return found
    in_part = {SUBSET_PROCESSES} if edition_of_run(first).document != "Rules.md" else set[int]()
    other = [facts for facts in runs if facts.accelerators and facts.accelerators not in {wanted, *in_part}]
    if other:
        found += report_closed(
            "checkpointClosedMpiProcesses", runs,
            f"{first.label}: CLOSED requires {wanted} processes, and {other[0].accelerators:.0f} ran",
            f"Run it with --num-processes {wanted}, or submit it to OPEN.", other, processes=other[0].accelerators,
        )  # fmt: skip
    return found + _check_hosts(runs)


def _check_hosts(runs: Sequence[RunFacts]) -> list[Judgement]:
    """How many accelerators each host has in CLOSED: more than 4 by the rule, and at least 4 by its table."""
    name = "checkpointClosedAcceleratorsPerHost"
    known = [(facts.accelerators / facts.hosts, facts) for facts in runs if facts.accelerators and facts.hosts]
    few = [facts for number, facts in known if number < MIN_PER_HOST]
    may_be_closed = runs[0].division in {"", "closed"}
    if may_be_closed and not few and any(number == MIN_PER_HOST for number, _ in known):
        return report_unknown(name, runs, f"{MIN_PER_HOST} on each host are too few by the rule, and enough by Table 3")
    if not few:
        return []
    return report_closed(
        name, runs,
        f"{few[0].label}: {few[0].accelerators:.0f} accelerators on {plural(few[0].hosts or 1, 'host')}, "
        f"where CLOSED requires more than {MIN_PER_HOST} on each",
        "Use fewer hosts.", few, accelerators=few[0].accelerators, hosts=few[0].hosts,
    )  # fmt: skip


def _check_accelerator(runs: Sequence[RunFacts]) -> list[Judgement]:
    """The accelerators' memory must have room for the checkpoint."""
    name, first, memories = "checkpointAggregateAcceleratorMemory", runs[0], edition_of_run(runs[0]).accelerator_bytes
    known = [facts for facts in runs if facts.checkpoint_bytes and facts.accelerators]
    unknown = report_unknown(name, runs, "the emulated accelerator, or the checkpoint's size")
    if not known or not memories:
        return unknown
    facts = known[0]
    # Runs of 3.0 state no accelerator; what fits into the smallest fits into each.
    room = memories.get(first.accelerator, min(memories.values())) * (facts.accelerators or 0)
    if room >= (facts.checkpoint_bytes or 0):
        return []
    if first.accelerator not in memories:
        return unknown
    return report_broken(
        name, runs,
        f"{first.label}: a checkpoint of {format_bytes(facts.checkpoint_bytes or 0)} does not fit into the "
        f"{format_bytes(room)} of {facts.accelerators:.0f} accelerators",
        "Use more accelerators.", known, room_bytes=room, checkpoint_bytes=facts.checkpoint_bytes,
    )  # fmt: skip
