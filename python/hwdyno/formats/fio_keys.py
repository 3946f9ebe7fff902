"""Keys of fio's job files that are not run: those that change nothing here, and why the others do."""

from __future__ import annotations

_LOG = "no log files are written; the Run keeps samples over time and whole histograms"
_REPORT = "it shapes fio's report only"
_TUNING = "the engine chooses this itself"
_ALWAYS = "this is always so here"

HARMLESS: dict[str, str] = {
    **dict.fromkeys(("write_bw_log", "write_lat_log", "write_iops_log", "write_hist_log", "per_job_logs"), _LOG),
    **dict.fromkeys(("log_avg_msec", "log_max_value", "log_offset", "log_hist_msec", "bwavgtime", "iopsavgtime"), _LOG),
    **dict.fromkeys(("log_unix_epoch", "log_compression", "disable_lat", "disable_clat", "disable_slat"), _LOG),
    **dict.fromkeys(("group_reporting", "description", "clat_percentiles", "lat_percentiles"), _REPORT),
    **dict.fromkeys(
        ("slat_percentiles", "percentile_list", "unit_base", "disk_util", "stats", "unified_rw_reporting"), _REPORT
    ),
    **dict.fromkeys(("significant_figures", "json_traditional", "eta", "status_interval", "gtod_reduce"), _REPORT),
    **dict.fromkeys(("iodepth_batch", "iodepth_batch_submit", "iodepth_batch_complete", "iodepth_low"), _TUNING),
    **dict.fromkeys(("iodepth_batch_complete_max", "registerfiles", "fixedbufs", "nonvectored", "gtod_cpu"), _TUNING),
    **dict.fromkeys(("userspace_reap", "iomem_align", "uncached", "openfiles"), _TUNING),
    **dict.fromkeys(
        ("clocksource", "cpus_allowed_policy", "io_submit_mode", "create_serialize", "file_service_type"), _TUNING
    ),
    **dict.fromkeys(
        ("thread", "allow_file_create", "fallocate", "overwrite", "create_on_open"), "files are laid out whole"
    ),
    **dict.fromkeys(("create_fsync", "create_only_if_missing", "filename_format"), "files are laid out whole"),
    **dict.fromkeys(("unlink", "unlink_each_loop"), "files that were made are removed at the end"),
    **dict.fromkeys(("refill_buffers", "scramble_buffers"), "what is written never repeats or compresses"),
    **dict.fromkeys(("randrepeat", "allrandrepeat", "random_generator"), "the order is decided by its seed"),
    **dict.fromkeys(("norandommap", "softrandommap"), "each pass visits every block once, at no cost in memory"),
    **dict.fromkeys(
        ("exitall", "exit_what", "continue_on_error", "ignore_error", "error_dump"),
        "faults are counted and the run goes on",
    ),
    **dict.fromkeys(("verify_fatal", "verify_dump", "verify_async", "verify_async_cpus", "verify_state_save"), _ALWAYS),
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
    **dict.fromkeys(
        ("steadystate", "ss", "steadystate_duration", "ss_dur", "steadystate_ramp_time", "ss_ramp"),
        "it ends the run elsewhere",
    ),
    **dict.fromkeys(("latency_target", "latency_window", "latency_percentile", "latency_run"), "it searches the depth"),
    **dict.fromkeys(
        ("rate_min", "rate_iops_min", "rate_cycle", "rate_ignore_thinktime"), "the run would end when it is missed"
    ),
    **dict.fromkeys(("thinktime_spin", "thinktime_blocks_type", "thinktime_iotime"), "it changes what the pauses cost"),
    **dict.fromkeys(("percentage_random", "rw_sequencer"), "it mixes orders"),
    **dict.fromkeys(
        ("zonemode", "zonesize", "zonerange", "zoneskip", "read_beyond_wp"), "it changes which blocks are visited"
    ),
    **dict.fromkeys(("blockalign", "ba", "bs_unaligned", "bs_is_seq_rand"), "it changes where blocks lie"),
    **dict.fromkeys(("read_iolog", "replay_redirect"), "it replays another load"),
    **dict.fromkeys(
        ("verify_pattern", "verify_interval", "verify_only", "verify_offset"), "blocks carry a header of their own"
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
