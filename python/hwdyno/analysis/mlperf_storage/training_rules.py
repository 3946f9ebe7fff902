"""The rules of MLPerf Storage on training: accelerator utilization, data set, runs and hosts."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from hwdyno.analysis.mlperf_storage.editions import MIN_MEMORIES, MIN_STEPS, edition_of_run
from hwdyno.analysis.mlperf_storage.judgement import Judgement, report_broken, report_unknown
from hwdyno.analysis.mlperf_storage.run_facts import RunFacts
from hwdyno.model.units import format_bytes, format_duration, format_memory, format_ratio, plural

GIB = 1 << 30
_GENERATE = "Generate the data set that mlpstorage's datasize calculates, and run again."


def measured_runs(runs: Sequence[RunFacts]) -> Sequence[RunFacts]:
    """The runs that count: all but the warm-up, the first run of a whole set that keeps it."""
    edition = edition_of_run(runs[0])
    whole = edition.warm_up and (runs[0].run_folders or 0) > edition.measured_runs
    return [facts for facts in runs if facts.run != facts.first_run] if whole else runs


def check_training(runs: Sequence[RunFacts]) -> list[Judgement]:
    """The rules on one workload's runs, which are in the order of time."""
    measured = measured_runs(runs)
    of_measured = (_check_utilization, _check_steps, _check_memory) if measured else ()
    found = [
        *(judgement for check in of_measured for judgement in check(measured)),
        *_check_workload(runs),
        *_check_hosts(runs),
        *check_paths("trainingMlpstoragePathArgs", runs, "data"),
        *check_filesystems("trainingMlpstorageFilesystemCheck", runs, "data"),
    ]
    # What-if runs are no part of a submission, whose runs are counted.
    return found if runs[0].division == "whatif" else found + _check_series(runs)


def _check_series(runs: Sequence[RunFacts]) -> list[Judgement]:
    return [*_check_generation(runs), *_check_count(runs), *_check_gaps(runs)]


def _check_utilization(runs: Sequence[RunFacts]) -> list[Judgement]:
    name, first = "trainingAcceleratorUtilizationCheck", runs[0]
    least = edition_of_run(first).min_au.get(first.workload) or first.au_template
    known = [facts for facts in runs if facts.au is not None]
    if not least:
        return report_unknown(name, runs, f"no least AU is defined for {first.workload or 'an unnamed workload'}")
    if not known:
        return report_unknown(name, runs, "no AU is stated")
    failed = [facts for facts in known if (facts.au or 0.0) < least]
    if not failed:
        return []
    worst = min(failed, key=lambda facts: facts.au or 0.0)
    return report_broken(
        name, runs,
        f"{first.label}: AU is below {least:.0%} in {len(failed)} of {plural(len(known), 'measured run')}, "
        f"the least {100 * (worst.au or 0.0):.4g}%",
        "Use fewer accelerators, or find what limits the storage: plain reads of the same files with as many threads.",
        failed, au=worst.au, least=least,
    )  # fmt: skip


def _check_workload(runs: Sequence[RunFacts]) -> list[Judgement]:
    first, known = runs[0], edition_of_run(runs[0]).min_au
    if not first.workload or first.workload in known or first.division not in {"closed", "open"}:
        return []
    return report_broken(
        "trainingWorkloads", runs, f"{first.workload} is no workload of this edition, which has {', '.join(known)}",
        "Submit one of the edition's workloads.", workload=first.workload,
    )  # fmt: skip


def _check_steps(runs: Sequence[RunFacts]) -> list[Judgement]:
    name = "trainingRecalculateDatasetSize"
    steps = []
    for facts in runs:
        if facts.samples and facts.batch_size and facts.accelerators:
            least = MIN_STEPS * facts.batch_size * facts.accelerators
            # The number of files is rounded down.
            too_few = facts.samples + (facts.samples_per_file or 1) <= least
            steps.append((facts.samples / facts.batch_size / facts.accelerators, too_few, facts))
    if not steps:
        return report_unknown(name, runs, "the steps of an epoch: number of files or batch size is in no file")
    few = [(number, facts) for number, too_few, facts in steps if too_few]
    if not few:
        return []
    number, worst = min(few, key=lambda row: row[0])
    return report_broken(
        name, runs,
        f"{worst.label}: an epoch has {number:,.0f} steps of each accelerator in {len(few)} of "
        f"{plural(len(runs), 'run')}, fewer than {MIN_STEPS}",
        _GENERATE, [facts for _, facts in few], steps=number, min_steps=MIN_STEPS,
    )  # fmt: skip


def _check_memory(runs: Sequence[RunFacts]) -> list[Judgement]:
    name = "trainingRecalculateDatasetSize"
    sizes = []
    for facts in runs:
        if facts.samples and facts.record_bytes and facts.memory_bytes:
            size = facts.samples * facts.record_bytes
            file_bytes = (facts.samples_per_file or 1) * facts.record_bytes
            # The number of files is rounded down, and the command takes each host's memory in whole GiB.
            rounded = file_bytes + MIN_MEMORIES * (facts.hosts or 1) * GIB
            sizes.append((size, size + rounded <= MIN_MEMORIES * facts.memory_bytes, facts))
    if not sizes:
        return report_unknown(name, runs, "data set against memory: hosts' memory or record size is in no file")
    small = [(size, facts) for size, too_small, facts in sizes if too_small]
    if not small:
        return []
    size, worst = min(small, key=lambda row: row[0] / (row[1].memory_bytes or 1))
    memory = worst.memory_bytes or 1.0
    return report_broken(
        name, runs,
        f"{worst.label}: the data set is {format_ratio(size / memory, 3)} times the hosts' {format_memory(memory)} of "
        f"memory, less than {MIN_MEMORIES} ({len(small)} of {plural(len(runs), 'run')})",
        _GENERATE, [facts for _, facts in small], dataset_bytes=size, memory_bytes=memory,
    )  # fmt: skip


def _absent(facts: RunFacts, phase: str) -> str:
    return (
        f"there is no folder {phase}" if facts.run_folders else f"the folder is one run, and {phase} is outside of it"
    )


def _check_generation(runs: Sequence[RunFacts]) -> list[Judgement]:
    first = runs[0]
    used = [(facts.samples or 0.0) * (facts.record_bytes or 0.0) for facts in runs]
    found = []
    if not first.made_bytes:
        why = "datagen's metadata states no size" if "datagen" in first.phases else _absent(first, "datagen")
        found += report_unknown("trainingDatagenMinimumSize", runs, why)
    elif max(used) > first.made_bytes * 1.000001:
        found += report_broken(
            "trainingDatagenMinimumSize", runs,
            f"{first.label}: {format_bytes(first.made_bytes)} were generated, "
            f"and the runs use {format_bytes(max(used))}",
            _GENERATE, made_bytes=first.made_bytes, used_bytes=max(used),
        )  # fmt: skip
    # The rule says "exactly"; mlpstorage's check allows more, up to what was generated, and so did the review of 3.0.
    others = [facts for facts in runs if facts.files and first.sized_files and facts.files < first.sized_files]
    if not first.sized_files:
        why = "datasize's metadata states no files" if "datasize" in first.phases else _absent(first, "datasize")
        found += report_unknown("trainingRunDataMatchesDatasize", runs, why)
    elif others:
        found += report_broken(
            "trainingRunDataMatchesDatasize", runs,
            f"{first.label}: {len(others)} of {plural(len(runs), 'run')} used {others[0].files or 0:,.0f} files, "
            f"fewer than the {first.sized_files:,.0f} that datasize calculated",
            "Run with at least the number of files that datasize prints.", others, files=others[0].files,
        )  # fmt: skip
    return found


def _check_count(runs: Sequence[RunFacts]) -> list[Judgement]:
    name, first, edition = "runTimestamps", runs[0], edition_of_run(runs[0])
    number, wanted = int(first.run_folders or 0), edition.measured_runs
    found = []
    if first.without_result:
        lacking = max(len(first.without_result), number - len(runs))
        found += report_broken(
            "trainingResultAggregation", runs,
            f"{first.label}: {plural(lacking, 'run')} without figures, {first.without_result[0]}",
            "Remove or repeat it: each measured run must have its metrics.", without_result=lacking,
        )  # fmt: skip
    if not number:
        return [*found, *report_unknown(name, runs, "how many runs there are: the folder is one of them")]
    if edition.warm_up == "unseen" and number == wanted:
        return [*found, *report_unknown(name, runs, f"whether a warm-up went before: there are {wanted} runs")]
    right = {wanted + 1} if edition.warm_up else {wanted}
    if number in right:
        return found
    of = f"{wanted + 1} (a warm-up and {wanted} measured ones)" if edition.warm_up else str(wanted)
    return found + report_broken(
        name, runs, f"{first.label}: there {'is' if number == 1 else 'are'} {plural(number, 'run')} instead of {of}",
        "Run as often in one go; of more runs, keep consecutive ones.", number=number,
    )  # fmt: skip


def _check_gaps(runs: Sequence[RunFacts]) -> list[Judgement]:
    """Runs are consecutive where less than a run's time is between two of them."""
    name = "runTimestampGap"
    spans = sorted((facts.started_s, facts.ended_s, facts.run) for facts in runs if facts.started_s and facts.ended_s)
    if len(spans) < len(runs):
        return report_unknown(name, runs, "whether runs are consecutive: their starts or ends are not all stated")
    apart = [
        (later[0] - earlier[1], earlier[2], later[2])
        for earlier, later in pairwise(spans)
        if later[0] - earlier[1] >= max(earlier[1] - earlier[0], later[1] - later[0])
    ]
    if not apart:
        return []
    gap, before, after = max(apart)
    return report_broken(
        name, runs,
        f"{runs[0].label}: {format_duration(gap)} are between the runs {before} and {after}, longer than a run",
        "Repeat the runs in one go: another run may have been left out between them.", gap_s=gap,
    )  # fmt: skip


def _check_hosts(runs: Sequence[RunFacts]) -> list[Judgement]:
    found, first = list[Judgement](), runs[0]
    uneven = [
        facts
        for facts in runs
        if facts.accelerators and facts.hosts and facts.hosts > 1 and facts.accelerators % facts.hosts
    ]
    if uneven:
        at = uneven[0]
        found += report_broken(
            "trainingIdenticalAcceleratorsPerNode", runs,
            f"{at.label}: {at.accelerators:.0f} accelerators cannot be equally many on {at.hosts:.0f} hosts",
            "Use a multiple of the number of hosts.", uneven, accelerators=at.accelerators, hosts=at.hosts,
        )  # fmt: skip
    several = [facts for facts in runs if facts.hosts == 1 and (facts.host_names or 1) > 1]
    if several:
        found += report_broken(
            "trainingSingleHostClientLimit", runs,
            f"{first.label}: the summary counts one host, and the command names {several[0].host_names:.0f}",
            "Check the host list: ranks may all have run on one host.", several, hosts=several[0].host_names,
        )  # fmt: skip
    return found


def check_paths(name: str, runs: Sequence[RunFacts], noun: str) -> list[Judgement]:
    """Data and results must be in different folders; an object store is no folder."""
    runs = [facts for facts in runs if facts.storage_api != "object"]
    if not runs:
        return []
    known = [facts for facts in runs if facts.data_path and facts.results_path]
    if not known:
        return report_unknown(name, runs, f"the folders of {noun} and results are in no metadata")
    same = [facts for facts in known if facts.data_path.rstrip("/") == facts.results_path.rstrip("/")]
    if not same:
        return []
    return report_broken(
        name, runs, f"{same[0].label}: {noun} and results are in one folder in {plural(len(same), 'run')}",
        "Write the results to another filesystem: logs disturb the storage under test.", same,
    )  # fmt: skip


def check_filesystems(name: str, runs: Sequence[RunFacts], noun: str) -> list[Judgement]:
    """Data and results must be on different filesystems, as mlpstorage probed them before each run."""
    runs = [facts for facts in runs if facts.storage_api != "object"]
    same = [facts for facts in runs if facts.same_filesystem]
    if same:
        return report_broken(
            name, runs, f"{same[0].label}: {noun} and results are on one filesystem in {plural(len(same), 'run')}",
            "Write the results to another filesystem: logs disturb the storage under test.", same,
        )  # fmt: skip
    if any(facts.same_filesystem is None for facts in runs):
        return report_unknown(name, runs, f"whether {noun} and results share a filesystem: no fs_separation.json")
    return []
