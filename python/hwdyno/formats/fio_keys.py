"""Keys of fio's job files: what each comes to here, those that change nothing, and why the others stop."""

from __future__ import annotations

_REPORT = "it shapes fio's report only"
_TUNING = "the engine chooses this itself"
_LOG = "logs hold averages over a window"
_ALWAYS = "this is always so here"

SUPPORTED: dict[str, str] = {
    "name": "the job's name",
    "stonewall": "begins a new group of jobs",
    "wait_for_previous": "begins a new group of jobs",
    "new_group": "begins a new group of jobs",
    "include": "the other file's lines stand in its place",
    "rw": "read, write, randread, randwrite, rw, randrw; read:8k leaves gaps; trims are not supported",
    "rwmixread": "share of reads in a mix",
    "rwmixwrite": "share of writes in a mix",
    "random_distribution": "random, zipf:N, pareto:N, normal:N, zoned:A/B:C/D; one for reads and writes",
    "bs": "length of an operation from 1 byte on; one for reads, one for writes",
    "bsrange": "whole multiples of the least, equally often; one for reads, one for writes",
    "bssplit": "lengths with their shares; one table for reads, one for writes",
    "ioengine": "io_uring, libaio, mmap, psync; sync, vsync, pvsync and pvsync2 run as psync",
    "direct": "past the page cache",
    "buffered": "the opposite of direct",
    "iodepth": "1 to 1024; 1 on a synchronous engine",
    "iodepth_batch_complete_min": "completions to wait for at a time",
    "hipri": "polls for completions where the queue can",
    "iomem": "the pages of the buffers: malloc, mmap, shm, or mmaphuge, shmhuge",
    "invalidate": "the file is dropped from the cache first, unless 0",
    "cpus_allowed": "processors to run on",
    "runtime": "length of the timed region",
    "time_based": "goes on for all of runtime",
    "ramp_time": "time that is not counted",
    "startdelay": "wait before the first operation",
    "randseed": "decides the random order",
    "seed": "the same",
    "rate": "bytes/s, with latency from the intended start; one for reads and writes",
    "rate_iops": "operations/s, likewise",
    "rate_process": "linear or poisson",
    "thinktime": "a pause after every thinktime_blocks",
    "thinktime_blocks": "operations before a pause",
    "thinktime_blocks_type": "complete; issue is the same at iodepth 1",
    "thinktime_spin": "the part of a pause that spins",
    "thinktime_iotime": "time with operations before a pause",
    "steadystate": "ends the job: iops, bw or lat, or their _slope, within a limit",
    "steadystate_duration": "the window that has to be steady",
    "steadystate_ramp_time": "time before the first window",
    "steadystate_check_interval": "interval of the window's rates",
    "write_bw_log": "averages over log_avg_msec (100 ms unless said), a file a thread",
    "write_iops_log": "likewise",
    "write_lat_log": "likewise, in slat, clat and lat",
    "log_avg_msec": "the window of the logs",
    "per_job_logs": "0 writes one file for all threads",
    "fsync": "a sync after so many writes",
    "fdatasync": "a sync of the data likewise",
    "fsync_on_close": "as end_fsync",
    "end_fsync": "what was written is made durable inside the timed region",
    "verify": "blocks are sealed with crc32c and read back; other checksums run as crc32c",
    "do_verify": "0 leaves out checking",
    "nrfiles": "files a thread",
    "openfiles": "so many of them are in use at a time; all stay open",
    "file_service_type": "roundrobin, sequential, random, zipf, pareto, normal; :N operations each",
    "filesize": "length of each file; of a range its middle",
    "filename": "files of this name (a:b for several), shared by all threads",
    "filename_format": "names made of $jobname, $jobnum and $filenum",
    "directory": "where the files lie (a:b for threads in turn)",
    "size": "bytes of a thread's region, or a share of the file",
    "io_size": "bytes to move",
    "number_ios": "operations to do",
    "loops": "passes",
    "numjobs": "threads",
    "offset": "where the region begins",
    "offset_increment": "added for each thread",
    "kb_base": "1000 or 1024",
}
"""Each with what it comes to."""

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
    **dict.fromkeys(("norandommap", "softrandommap"), "each pass visits every block once, at no cost in memory"),
    **dict.fromkeys(
        ("exitall", "exit_what", "continue_on_error", "ignore_error", "error_dump"),
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
"""Each with what becomes of it; leaving it out changes no result."""

WHY: dict[str, str] = {
    **dict.fromkeys(("nice", "prio", "prioclass"), "jobs run as this process does"),
    **dict.fromkeys(("wait_for",), "it orders jobs; use stonewall"),
    **dict.fromkeys(("zero_buffers", "buffer_pattern", "buffer_compress_percentage"), "data here never compresses"),
    **dict.fromkeys(("buffer_compress_chunk", "dedupe_percentage"), "data here never repeats"),
    **dict.fromkeys(("sync", "atomic"), "each write would wait for the device"),
    **dict.fromkeys(("sqthread_poll", "sqthread_poll_cpu"), "it polls in place of interrupts"),
    **dict.fromkeys(("latency_target", "latency_window", "latency_percentile", "latency_run"), "it searches the depth"),
    **dict.fromkeys(
        ("rate_min", "rate_iops_min", "rate_cycle", "rate_ignore_thinktime"), "the run would end when it is missed"
    ),
    **dict.fromkeys(("percentage_random", "rw_sequencer"), "it mixes orders"),
    **dict.fromkeys(
        ("zonemode", "zonesize", "zonerange", "zoneskip", "read_beyond_wp"), "it changes which blocks are visited"
    ),
    **dict.fromkeys(("blockalign", "ba", "bs_unaligned", "bs_is_seq_rand"), "it changes where blocks lie"),
    **dict.fromkeys(("read_iolog", "replay_redirect"), "it replays another load"),
    **dict.fromkeys(
        ("verify_pattern", "verify_only", "verify_offset", "verify_header_seed", "verify_write_sequence"),
        "blocks carry a header of their own",
    ),
    **dict.fromkeys(("sync_file_range", "write_barrier", "fsync_range"), "it adds work to writes"),
    **dict.fromkeys(("flow", "flow_watermark", "flow_sleep"), "it couples the jobs' speeds"),
    **dict.fromkeys(("exec_prerun", "exec_postrun"), "no commands are run from a job file"),
    **dict.fromkeys(
        ("pre_read", "file_append", "trim_percentage", "trim_backlog", "opendir"), "it changes what is read or written"
    ),
    **dict.fromkeys(
        ("rwmixcycle", "cgroup", "cgroup_weight", "uid", "gid", "numa_cpu_nodes", "numa_mem_policy"),
        "it changes where or how jobs run",
    ),
}
"""Keys of fio that are not supported, and what leaving them out would change."""
