"""The table of fio's job file keys: supported, ignored or rejected, with the differences from fio."""

from __future__ import annotations

from dataclasses import dataclass

_REPORT = "it shapes fio's report only"
_TUNING = "the engine chooses this itself"
_LOG = "logs hold averages over a window"
_ALWAYS = "this is always so here"


@dataclass(frozen=True, slots=True)
class Key:
    """What a supported key does."""

    does: str
    unlike: str = ""
    """The difference from fio; empty without one."""


_GROUP = Key("begins a new group of jobs, when those before have ended")
_RATED = "latency counts from the moment that an operation was meant to begin; fio's from when it did"
_OTHER_RANDOM = "the draws are others than fio's; counts and shares are the same"

SUPPORTED: dict[str, Key] = {
    # file structure, and dependencies between jobs
    "name": Key("the job's name"),
    "stonewall": _GROUP,
    "wait_for_previous": _GROUP,
    "new_group": Key("begins a new reporting group, which exitall looks at", "each job is always reported apart"),
    "include": Key("the other file's lines stand in its place", "relative to the job file"),
    "wait_for": Key("begins when that job has ended"),
    "exitall": Key("when it ends, so do the others of exit_what"),
    "exit_what": Key("group, stonewall or all"),
    "kb_base": Key("1000 or 1024"),
    # which blocks
    "rw": Key(
        "read, write, rw, trim, trimwrite, and the same at random; read:8k leaves gaps, randread:8 is at random every "
        "8th time",
        "a file is trimmed by punching holes, where fio fails; trims of a device go under the guards of every write",
    ),
    "rw_sequencer": Key("between random operations: sequential, or identical"),
    "rwmixread": Key("share of reads in a mix", "each operation is drawn by itself; fio draws in runs"),
    "rwmixwrite": Key("share of writes in a mix", "as rwmixread"),
    "percentage_random": Key("share of a random order that is at random; the rest goes on where the last one ended"),
    "random_distribution": Key(
        "random, zipf:N, pareto:N, normal:N, zoned:A/B:C/D", "one for reads and writes; no zoned_abs, no sequence"
    ),
    "norandommap": Key("blocks may be visited twice and others not", _OTHER_RANDOM),
    "zonemode": Key("strided, or none", "no zbd: that needs a zoned device"),
    "zonesize": Key("bytes that are moved in a zone before the next"),
    "zonerange": Key("length of a zone"),
    "zoneskip": Key("bytes from a zone to the next"),
    "offset": Key("where the region begins", "bytes, no share of the file"),
    "offset_increment": Key("added for each thread"),
    # how long
    "bs": Key("length of an operation from 1 byte on; of reads, writes and trims"),
    "bsrange": Key("whole multiples of the least, equally often", "in fio the shortest may be rarer than the others"),
    "bssplit": Key(
        "lengths with their shares; of reads, writes and trims",
        "at random, with several lengths, a block may be visited twice; fio fills its map of blocks as well as it goes",
    ),
    "bs_unaligned": Key("any length within bsrange"),
    "bs_is_seq_rand": Key("the first of bs is of operations in sequence, the second of random ones"),
    "blockalign": Key("random offsets are multiples of it"),
    # access
    "ioengine": Key(
        "io_uring, libaio, psync, mmap, null; sync, vsync, pvsync and pvsync2 run as psync, posixaio as libaio",
        "vsync gathers neighbours in fio; posixaio is threads of the C library in fio: do not compare its figures",
    ),
    "direct": Key("past the page cache"),
    "buffered": Key("the opposite of direct"),
    "iodepth": Key("1 to 1024; 1 on a synchronous engine"),
    "iodepth_batch_complete_min": Key("completions to wait for at a time"),
    "hipri": Key("polls for completions where the queue can", "stops where the queue cannot; fio may spin for ever"),
    "iomem": Key("the pages of the buffers: malloc, mmap, shm, or mmaphuge, shmhuge"),
    "invalidate": Key("the file is dropped from the cache first, unless 0", "once; fio does it at each pass"),
    "pre_read": Key("the file is read into the cache first"),
    "sync": Key("a write returns when it is durable: none, sync or dsync"),
    "cpus_allowed": Key("processors to run on"),
    # when
    "runtime": Key("length of the timed region"),
    "time_based": Key("goes on for all of runtime"),
    "ramp_time": Key("time that is not counted", "the order begins anew behind it"),
    "startdelay": Key("wait before the first operation", "one time, no range"),
    "loops": Key("passes"),
    "size": Key("bytes of a thread's region, or a share of the file"),
    "io_size": Key("bytes to move"),
    "number_ios": Key("operations to do at most"),
    "randseed": Key("decides the random order", _OTHER_RANDOM),
    "seed": Key("the same", _OTHER_RANDOM),
    "steadystate": Key("ends the job: iops, bw or lat, or their _slope, within a limit"),
    "steadystate_duration": Key("the window that has to be steady"),
    "steadystate_ramp_time": Key("time before the first window"),
    "steadystate_check_interval": Key("interval of the window's rates"),
    # how fast
    "rate": Key("bytes/s of each thread; of reads, writes and trims", _RATED),
    "rate_iops": Key("operations/s, likewise", _RATED),
    "rate_process": Key("linear or poisson"),
    "rate_min": Key("ends the job as a fault when fewer bytes/s are moved in a cycle, 2 s after its begin"),
    "rate_iops_min": Key("operations/s, likewise"),
    "rate_cycle": Key("the cycle of rate_min, ms"),
    "rate_ignore_thinktime": Key("a rate does not make up for pauses"),
    "thinktime": Key("a pause after every thinktime_blocks"),
    "thinktime_blocks": Key("operations before a pause"),
    "thinktime_blocks_type": Key("complete, or issue", "issue is as complete: what is in flight comes home first"),
    "thinktime_spin": Key("the part of a pause that spins"),
    "thinktime_iotime": Key("time with operations before a pause"),
    "latency_target": Key(
        "searches for the greatest depth up to iodepth that keeps it",
        "once a depth was too great it goes by halves; fio doubles again where that depth was iodepth",
    ),
    "latency_window": Key("time at each depth"),
    "latency_percentile": Key("share of the operations that has to keep latency_target"),
    "latency_run": Key("goes on searching until the job ends"),
    "flow": Key("the job's part in the operations of all jobs with its flow_id"),
    "flow_id": Key("which flow"),
    "flow_sleep": Key("rest of a thread that is ahead", "20 us where none is asked for; fio spins"),
    # what is written, and checks
    "fsync": Key("a sync after so many writes"),
    "fdatasync": Key("a sync of the data likewise"),
    "fsync_on_close": Key("as end_fsync"),
    "end_fsync": Key("what was written is made durable inside the timed region", "fio does it behind it"),
    "zero_buffers": Key("zeroes are written"),
    "buffer_pattern": Key("these bytes are written over and over", "no %o and no file"),
    "buffer_compress_percentage": Key("share of zeroes in each chunk that is written"),
    "buffer_compress_chunk": Key("length of a chunk, 512 unless said"),
    "dedupe_percentage": Key("share of blocks that are the one before once more"),
    "dedupe_mode": Key("repeat", "no working_set"),
    "verify": Key(
        "blocks are sealed with crc32c and read back; other checksums run as crc32c",
        "checks are counted apart, not among the reads; a damaged block is a fault, and the job goes on",
    ),
    "verify_pattern": Key("is left out with a note", "blocks that never repeat show more than a pattern does"),
    "do_verify": Key("0 leaves out checking"),
    # files
    "nrfiles": Key("files a thread"),
    "openfiles": Key("so many of them are in use at a time", "all stay open: opening costs nothing here"),
    "file_service_type": Key("roundrobin, sequential, random, zipf, pareto, normal; :N operations each"),
    "filesize": Key("length of each file", "of a range its middle"),
    "filename": Key(
        "files of this name (a:b for several), shared by all threads",
        "a file that is there and not hwdyno's own is never written; one that was made is removed",
    ),
    "filename_format": Key("names made of $jobname, $jobnum and $filenum"),
    "directory": Key("where the files lie (a:b for threads in turn)"),
    "numjobs": Key("threads", "always threads; without filename each has its part of one file"),
    # logs
    "write_bw_log": Key("averages over log_avg_msec (100 ms unless said), a file a thread", "no line an operation"),
    "write_iops_log": Key("likewise", "as write_bw_log"),
    "write_lat_log": Key("likewise, in slat, clat and lat", "as write_bw_log"),
    "log_avg_msec": Key("the window of the logs"),
    "per_job_logs": Key("0 writes one file for all threads"),
    "write_iolog": Key(
        "writes down the operations, in fio's version 3",
        "1048576 of each thread; no reads of checks",
    ),
    "read_iolog": Key(
        "runs the operations of an iolog, version 2 or 3, in place of an order",
        "one thread; latency counts from the moment in the log; no blktrace, no trims",
    ),
    "replay_skip": Key("actions of it to leave out"),
    "replay_redirect": Key("the file that all of them go to"),
    "replay_no_stall": Key("they begin as soon as they can"),
    "replay_time_scale": Key("speed of the log in percent"),
}
"""The supported keys."""

HARMLESS: dict[str, str] = {
    **dict.fromkeys(("write_hist_log", "log_hist_msec", "log_hist_coarseness"), "the Run keeps whole histograms"),
    **dict.fromkeys(("log_max_value", "log_window_value", "log_offset", "log_prio", "log_issue_time"), _LOG),
    **dict.fromkeys(("log_unix_epoch", "log_alternate_epoch", "log_compression", "log_store_compressed"), _LOG),
    **dict.fromkeys(("disable_lat", "disable_clat", "disable_slat", "bwavgtime", "iopsavgtime"), "all is measured"),
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
        ("thread", "allow_file_create", "fallocate", "overwrite", "create_on_open"), "files are laid out whole"
    ),
    **dict.fromkeys(("create_fsync", "create_only_if_missing"), "files are laid out whole"),
    **dict.fromkeys(("unlink", "unlink_each_loop"), "files that were made are removed at the end"),
    **dict.fromkeys(("refill_buffers", "scramble_buffers"), "what is written never repeats or compresses"),
    **dict.fromkeys(("randrepeat", "allrandrepeat", "random_generator"), "the order is decided by its seed"),
    "softrandommap": "each pass visits every block once, at no cost in memory",
    **dict.fromkeys(
        ("continue_on_error", "ignore_error", "error_dump"),
        "faults are counted and the run goes on",
    ),
    **dict.fromkeys(
        ("verify_fatal", "verify_interval", "verify_dump", "verify_async", "verify_async_cpus", "verify_state_save"),
        _ALWAYS,
    ),
    **dict.fromkeys(
        ("verify_backlog", "verify_backlog_batch", "serialize_overlap"), "checking follows after the timed region"
    ),
}
"""The ignored keys, each with the reason; they change no result."""

WHY: dict[str, str] = {
    **dict.fromkeys(("nice", "prio", "prioclass"), "jobs run as this process does; start it by nice or ionice"),
    **dict.fromkeys(
        ("cmdprio", "cmdprio_percentage", "cmdprio_class", "cmdprio_bssplit", "cmdprio_hint"),
        "some operations would go before others in the device",
    ),
    **dict.fromkeys(("dedupe_global", "dedupe_working_set_percentage"), "only dedupe_mode=repeat is there"),
    "atomic": "writes would be untorn by the device's promise, which is not asked for here",
    **dict.fromkeys(("sqthread_poll", "sqthread_poll_cpu"), "it polls in place of interrupts"),
    "ioscheduler": "it would change the machine, for all who use it; set it yourself, and hwdyno machine shows it",
    **dict.fromkeys(
        ("read_beyond_wp", "max_open_zones", "job_max_open_zones", "zone_reset_threshold", "zone_reset_frequency"),
        "it needs a zoned block device",
    ),
    **dict.fromkeys(
        ("verify_only", "verify_offset", "verify_header_seed", "verify_write_sequence"),
        "blocks carry a header of their own, and are checked by the run that wrote them",
    ),
    **dict.fromkeys(("sync_file_range", "write_barrier", "fsync_range"), "it adds work to writes"),
    **dict.fromkeys(("exec_prerun", "exec_postrun"), "no commands are run from a job file"),
    **dict.fromkeys(("fill_device",), "it fills the filesystem; give a size"),
    **dict.fromkeys(
        ("file_append", "trim_percentage", "trim_backlog", "trim_verify_zero", "opendir", "num_range"),
        "it changes what is read or written",
    ),
    **dict.fromkeys(("sprandom", "spr_op", "spr_num_regions"), "it is a way to precondition; see hwdyno storage snia"),
    **dict.fromkeys(
        ("numa_cpu_nodes", "numa_mem_policy"), "it says where threads and memory lie; start hwdyno by numactl"
    ),
    **dict.fromkeys(("rwmixcycle", "cgroup", "cgroup_weight", "uid", "gid"), "it changes where or how jobs run"),
    **dict.fromkeys(("fdp", "dataplacement", "fdp_pli", "plids"), "it places data in a device by commands of its own"),
    **dict.fromkeys(("md_per_io_size", "pi_act", "pi_chk", "apptag"), "it protects data by the device's own commands"),
    **dict.fromkeys(("cpuload", "cpuchunks", "cpumode"), "it keeps processors busy; hwdyno compute measures those"),
    "max_latency": "the run would end when an operation takes longer",
}
"""The rejected keys, each with what ignoring it would change."""


def table() -> str:
    """All keys as Markdown, for docs/fio-jobs.md."""
    lines = ["| key | what it does here | unlike fio |", "| --- | --- | --- |"]
    lines += [f"| `{name}` | {key.does} | {key.unlike} |" for name, key in SUPPORTED.items()]
    lines += ["", "| left out, with a note | because |", "| --- | --- |"]
    lines += [f"| {names} | {why} |" for names, why in _by_reason(HARMLESS)]
    lines += ["", "| stops, unless `--ignore` says otherwise | because |", "| --- | --- |"]
    lines += [f"| {names} | {why} |" for names, why in _by_reason(WHY)]
    return "\n".join(lines) + "\n"


def _by_reason(keys: dict[str, str]) -> list[tuple[str, str]]:
    reasons: dict[str, list[str]] = {}
    for name, why in keys.items():
        reasons.setdefault(why, []).append(f"`{name}`")
    return [(", ".join(names), why) for why, names in reasons.items()]
