"""The table of fio's job file keys: supported, ignored or rejected, with the differences from fio."""

from __future__ import annotations

from dataclasses import dataclass

_REPORT = "it affects fio's report only"
_TUNING = "the engine chooses this itself"
_LOG = "logs have averages over a window"
_ALWAYS = "always on here"


@dataclass(frozen=True, slots=True)
class Key:
    """What a supported key does."""

    does: str
    unlike: str = ""
    """The difference from fio; empty without one."""


_GROUP = Key("starts a new group of jobs after the previous group")
_RATED = "latency counts from the scheduled start of an operation; in fio from the actual start"
_OTHER_RANDOM = "random draws differ from fio's; counts and shares are the same"

SUPPORTED: dict[str, Key] = {
    # file structure, and dependencies between jobs
    "name": Key("the job's name"),
    "stonewall": _GROUP,
    "wait_for_previous": _GROUP,
    "new_group": Key("starts a new reporting group, for exitall", "each job is always reported separately"),
    "include": Key("inserts the lines of the other file", "relative to the job file"),
    "wait_for": Key("starts after that job"),
    "exitall": Key("ends the other jobs of exit_what with it"),
    "exit_what": Key("group, stonewall or all"),
    "kb_base": Key("1000 or 1024"),
    # which blocks
    "rw": Key(
        "read, write, rw, trim, trimwrite, and the same at random; read:8k leaves gaps, randread:8 is random every "
        "8th time",
        "a file is trimmed by punching holes, where fio fails; trims of a device are guarded like writes",
    ),
    "rw_sequencer": Key("order between random operations: sequential or identical"),
    "rwmixread": Key("share of reads in a mix", "each operation is drawn separately; fio draws in runs"),
    "rwmixwrite": Key("share of writes in a mix", "same as rwmixread"),
    "percentage_random": Key("share of random operations; the rest continue where the last one ended"),
    "random_distribution": Key(
        "random, zipf:N, pareto:N, normal:N, zoned:A/B:C/D", "one for reads and writes; no zoned_abs or sequence"
    ),
    "norandommap": Key("random order may repeat blocks and skip others", _OTHER_RANDOM),
    "zonemode": Key("strided, or none", "no zbd, which needs a zoned device"),
    "zonesize": Key("bytes transferred in a zone before the next"),
    "zonerange": Key("size of a zone"),
    "zoneskip": Key("gap between zones"),
    "offset": Key("start of the region", "bytes, not a share of the file"),
    "offset_increment": Key("added for each thread"),
    # how long
    "bs": Key("block size, 1 byte or more; for reads, writes and trims"),
    "bsrange": Key("multiples of the smallest, equally often", "in fio the smallest may be rarer than the others"),
    "bssplit": Key(
        "block sizes with their shares; for reads, writes and trims",
        "random order with several sizes may repeat a block; fio fills its block map as far as possible",
    ),
    "bs_unaligned": Key("any size within bsrange"),
    "bs_is_seq_rand": Key("the first of bs is for sequential operations, the second for random ones"),
    "blockalign": Key("alignment of random offsets"),
    # access
    "ioengine": Key(
        "io_uring, libaio, psync, mmap, null; sync, vsync, pvsync and pvsync2 run as psync, posixaio as libaio",
        "in fio, vsync merges neighbours and posixaio uses C library threads: do not compare its figures",
    ),
    "direct": Key("bypass the page cache"),
    "buffered": Key("the opposite of direct"),
    "iodepth": Key("1 to 1024; 1 on a synchronous engine"),
    "iodepth_batch_complete_min": Key("completions per wait"),
    "hipri": Key("polls for completions if the queue supports it", "refused if the queue cannot; fio may spin forever"),
    "iomem": Key("buffer pages: malloc, mmap, shm, or mmaphuge, shmhuge"),
    "invalidate": Key("drops the file from the cache first, unless 0", "once; fio repeats it for each pass"),
    "pre_read": Key("reads the file into the cache first"),
    "sync": Key("writes return when durable: none, sync or dsync"),
    "cpus_allowed": Key("CPUs to run on"),
    # when
    "runtime": Key("length of the timed region"),
    "time_based": Key("runs for the whole runtime"),
    "ramp_time": Key(
        "warm-up time that is not counted", "the order restarts after it; work that is done within it is counted whole"
    ),
    "startdelay": Key("delay before the first operation", "one time, not a range"),
    "loops": Key("passes"),
    "size": Key("size of a thread's region, or a share of the file"),
    "io_size": Key("bytes to transfer"),
    "number_ios": Key("most operations"),
    "randseed": Key("seed of the random order", _OTHER_RANDOM),
    "seed": Key("the same", _OTHER_RANDOM),
    "steadystate": Key("ends the job when iops, bw or lat, or their _slope, is within a limit"),
    "steadystate_duration": Key("length of the steady window"),
    "steadystate_ramp_time": Key("time before the first window"),
    "steadystate_check_interval": Key("sampling interval of the window"),
    # how fast
    "rate": Key("bytes/s of each thread; for reads, writes and trims", _RATED),
    "rate_iops": Key("the same in operations/s", _RATED),
    "rate_process": Key("linear or poisson"),
    "rate_min": Key("ends the job as failed below this many bytes/s in a cycle, from 2 s on"),
    "rate_iops_min": Key("the same in operations/s"),
    "rate_cycle": Key("cycle of rate_min, ms"),
    "rate_ignore_thinktime": Key("a rate does not catch up after pauses"),
    "thinktime": Key("pause after every thinktime_blocks"),
    "thinktime_blocks": Key("operations before a pause"),
    "thinktime_blocks_type": Key(
        "complete, or issue", "issue is treated as complete: operations in flight complete first"
    ),
    "thinktime_spin": Key("part of a pause that spins"),
    "thinktime_iotime": Key("time of operations before a pause"),
    "latency_target": Key(
        "searches for the largest depth up to iodepth within it",
        "after a depth that is too large it bisects; fio doubles again if that depth was iodepth",
    ),
    "latency_window": Key("time at each depth"),
    "latency_percentile": Key("share of operations that must meet latency_target"),
    "latency_run": Key("continues searching until the job ends"),
    "flow": Key("the job's share of the operations of all jobs with its flow_id"),
    "flow_id": Key("which flow"),
    "flow_sleep": Key("sleep of a thread that is ahead", "20 us if not set; fio spins"),
    # what is written, and checks
    "fsync": Key("sync after this many writes"),
    "fdatasync": Key("sync of the data after this many writes"),
    "fsync_on_close": Key("same as end_fsync"),
    "end_fsync": Key("syncs written data at the end, inside the timed region", "fio does it afterwards"),
    "zero_buffers": Key("writes zeroes"),
    "buffer_pattern": Key("writes these bytes repeatedly", "no %o, no file"),
    "buffer_compress_percentage": Key("share of zeroes in each written chunk"),
    "buffer_compress_chunk": Key("size of a chunk (default 512)"),
    "dedupe_percentage": Key("share of blocks that repeat the previous one"),
    "dedupe_mode": Key("repeat", "no working_set"),
    "verify": Key(
        "blocks have a crc32c and are read back; other checksums run as crc32c",
        "verification reads are counted separately; a damaged block is a fault, and the job continues",
    ),
    "verify_pattern": Key("is ignored with a note", "unique blocks detect more than a pattern"),
    "do_verify": Key("0 skips verification"),
    # files
    "nrfiles": Key("files per thread"),
    "openfiles": Key("files in use at a time", "all stay open, so opening costs nothing"),
    "file_service_type": Key("roundrobin, sequential, random, zipf, pareto, normal; :N operations each"),
    "filesize": Key("size of each file", "a range becomes its mean"),
    "filename": Key(
        "file name (a:b for several), shared by all threads",
        "an existing file that is not hwdyno's is never written; a new one is removed afterwards",
    ),
    "filename_format": Key("file names from $jobname, $jobnum and $filenum"),
    "directory": Key("directory of the files (a:b for threads in turn)"),
    "numjobs": Key("threads", "always threads; without filename each has its part of one file"),
    # logs
    "write_bw_log": Key(
        "averages over log_avg_msec (default 100 ms), one file per thread",
        "no line per operation; other files are replaced only with --overwrite",
    ),
    "write_iops_log": Key("the same for IOPS", "same as write_bw_log"),
    "write_lat_log": Key("the same, in slat, clat and lat", "same as write_bw_log"),
    "log_avg_msec": Key("the window of the logs"),
    "per_job_logs": Key("0 writes one file for all threads"),
    "write_iolog": Key(
        "records the operations, in fio's version 3",
        "1048576 of each thread; no verification reads; other files are replaced only with --overwrite",
    ),
    "read_iolog": Key(
        "replays the operations of an iolog, version 2 or 3",
        "one thread; latency counts from the time in the log; no blktrace, no trims",
    ),
    "replay_skip": Key("operations of the iolog to skip"),
    "replay_redirect": Key("file for all operations"),
    "replay_no_stall": Key("starts operations as soon as possible"),
    "replay_time_scale": Key("speed of the log in percent"),
}
"""The supported keys."""

HARMLESS: dict[str, str] = {
    **dict.fromkeys(("write_hist_log", "log_hist_msec", "log_hist_coarseness"), "the Run keeps full histograms"),
    **dict.fromkeys(("log_max_value", "log_window_value", "log_offset", "log_prio", "log_issue_time"), _LOG),
    **dict.fromkeys(("log_unix_epoch", "log_alternate_epoch", "log_compression", "log_store_compressed"), _LOG),
    **dict.fromkeys(
        ("disable_lat", "disable_clat", "disable_slat", "bwavgtime", "iopsavgtime"), "everything is measured"
    ),
    **dict.fromkeys(("group_reporting", "description", "clat_percentiles", "lat_percentiles"), _REPORT),
    **dict.fromkeys(
        ("slat_percentiles", "percentile_list", "unit_base", "disk_util", "stats", "unified_rw_reporting"), _REPORT
    ),
    **dict.fromkeys(("significant_figures", "json_traditional", "eta", "status_interval", "gtod_reduce"), _REPORT),
    "block_error_percentiles": _REPORT,
    **dict.fromkeys(("iodepth_batch", "iodepth_batch_submit", "iodepth_batch_complete", "iodepth_low"), _TUNING),
    **dict.fromkeys(("iodepth_batch_complete_max", "registerfiles", "fixedbufs", "nonvectored", "gtod_cpu"), _TUNING),
    **dict.fromkeys(("userspace_reap", "iomem_align", "uncached"), _TUNING),
    **dict.fromkeys(("clocksource", "cpus_allowed_policy", "io_submit_mode", "create_serialize"), _TUNING),
    **dict.fromkeys(
        ("thread", "allow_file_create", "fallocate", "overwrite", "create_on_open"), "files are laid out completely"
    ),
    **dict.fromkeys(("create_fsync", "create_only_if_missing"), "files are laid out completely"),
    **dict.fromkeys(("unlink", "unlink_each_loop"), "created files are removed at the end"),
    **dict.fromkeys(("refill_buffers", "scramble_buffers"), "written data never repeats or compresses"),
    **dict.fromkeys(("randrepeat", "allrandrepeat", "random_generator"), "the order follows from its seed"),
    "softrandommap": "each pass visits every block once, without a map in memory",
    **dict.fromkeys(
        ("continue_on_error", "ignore_error", "error_dump"),
        "faults are counted and the run continues",
    ),
    **dict.fromkeys(
        ("verify_fatal", "verify_interval", "verify_dump", "verify_async", "verify_async_cpus", "verify_state_save"),
        _ALWAYS,
    ),
    **dict.fromkeys(
        ("verify_backlog", "verify_backlog_batch", "serialize_overlap"), "verification follows after the timed region"
    ),
}
"""The ignored keys, each with the reason; they change no result."""

WHY: dict[str, str] = {
    **dict.fromkeys(
        ("nice", "prio", "prioclass"), "jobs have the priority of this process; start it with nice or ionice"
    ),
    **dict.fromkeys(
        ("cmdprio", "cmdprio_percentage", "cmdprio_class", "cmdprio_bssplit", "cmdprio_hint"),
        "it would reorder operations in the device",
    ),
    **dict.fromkeys(("dedupe_global", "dedupe_working_set_percentage"), "only dedupe_mode=repeat is supported"),
    "atomic": "it needs atomic writes of the device, which are not requested here",
    **dict.fromkeys(("sqthread_poll", "sqthread_poll_cpu"), "it polls instead of using interrupts"),
    "ioscheduler": "it would change the machine for all users; set it yourself (hwdyno machine shows it)",
    **dict.fromkeys(
        ("read_beyond_wp", "max_open_zones", "job_max_open_zones", "zone_reset_threshold", "zone_reset_frequency"),
        "it needs a zoned block device",
    ),
    **dict.fromkeys(
        ("verify_only", "verify_offset", "verify_header_seed", "verify_write_sequence"),
        "blocks have their own header and are verified by the run that wrote them",
    ),
    **dict.fromkeys(("sync_file_range", "write_barrier", "fsync_range"), "it adds work to writes"),
    **dict.fromkeys(("exec_prerun", "exec_postrun"), "no commands are run from a job file"),
    **dict.fromkeys(("fill_device",), "it fills the filesystem; set a size"),
    **dict.fromkeys(
        ("file_append", "trim_percentage", "trim_backlog", "trim_verify_zero", "opendir", "num_range"),
        "it changes what is read or written",
    ),
    **dict.fromkeys(("sprandom", "spr_op", "spr_num_regions"), "it is for preconditioning; see hwdyno storage snia"),
    **dict.fromkeys(("numa_cpu_nodes", "numa_mem_policy"), "it places threads and memory; start hwdyno with numactl"),
    **dict.fromkeys(("rwmixcycle", "cgroup", "cgroup_weight", "uid", "gid"), "it changes where or how jobs run"),
    **dict.fromkeys(("fdp", "dataplacement", "fdp_pli", "plids"), "it places data in a device with special commands"),
    **dict.fromkeys(("md_per_io_size", "pi_act", "pi_chk", "apptag"), "it uses the device's data protection"),
    **dict.fromkeys(("cpuload", "cpuchunks", "cpumode"), "it only loads the CPU; hwdyno compute measures that"),
    "max_latency": "it would end the run when an operation takes longer",
}
"""The rejected keys, each with what ignoring it would change."""


def table() -> str:
    """All keys as Markdown, for docs/fio-jobs.md."""
    lines = ["| key | effect here | differs from fio |", "| --- | --- | --- |"]
    lines += [f"| `{name}` | {key.does} | {key.unlike} |" for name, key in SUPPORTED.items()]
    lines += ["", "| ignored, with a note | reason |", "| --- | --- |"]
    lines += [f"| {names} | {why} |" for names, why in _by_reason(HARMLESS)]
    lines += ["", "| refused, unless `--ignore` names it | reason |", "| --- | --- |"]
    lines += [f"| {names} | {why} |" for names, why in _by_reason(WHY)]
    return "\n".join(lines) + "\n"


def _by_reason(keys: dict[str, str]) -> list[tuple[str, str]]:
    reasons: dict[str, list[str]] = {}
    for name, why in keys.items():
        reasons.setdefault(why, []).append(f"`{name}`")
    return [(", ".join(names), why) for why, names in reasons.items()]
