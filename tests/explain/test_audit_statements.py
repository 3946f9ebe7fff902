"""What a text states of its commands, disks and results is checked by laws; beside each fault, what is sound."""

from __future__ import annotations

from pathlib import Path

import pytest
from audited import audited, points
from hwdyno.formats.statements.sentences import split_sentences

HEAD = "| Test | Block size | IO depth | IOPS | BW (MB/s) | lat (us) |\n|---|---|---|---|---|---|\n"
NO_DEPTH = "| Test | Block size | BW |\n|---|---|---|\n"


def rows(*lines: str) -> str:
    return HEAD + "".join(f"| {line} |\n" for line in lines)


ROW = rows("random read | 4k | 8 | 50000 | 204.8 | 160")
DEEP = rows("random read | 4k | 32 | 90000 | 368.6 | 355", "random read | 4k | 256 | 90500 | 370.7 | 2828")
READS = "\n\n| Test | Block size | BW |\n|---|---|---|\n| read | 64k | {} MB/s |\n| read | 1M | {} MB/s |\n"
SHALLOW = "| Test | Block size | IOPS | lat (us) |\n|---|---|---|---|\n| mix | 4k | 284612 | 63.3 |\n"
EMMC = "We measured the bandwidth between the SSD and the eMMC {}.\n\n"
HUGE = "| Test | File size | Block size | IO depth | BW |\n|---|---|---|---|---|\n| read | 16 GiB | {} | 4 | 4 GB/s |\n"
COUPLED = (
    "The hypothesis that large blocks give more bandwidth was proved.\n\n",
    *("random read | 4k | 1 | 10000 | 41.0 | 100", "random read | 4k | 16 | 40000 | 163.8 | 400"),
    *("random read | 64k | 16 | 20000 | 1310.7 | 800", "random read | 1M | 4 | 2000 | 2097.2 | 2000"),
)
WRITE = rows("random write | 4k | 16 | {} | {} | 59")
RATED = "Intel's data center SSD reports a random write IOPS of 130K for 4 KiB.\n\n"
INVERSE = "There is an inverse relationship between bandwidth and latency{}.\n\n"
RISING = rows("random read | 4k | 1 | 10000 | 41.0 | 100", "random read | 4k | 16 | 40000 | 163.8 | 400")
IOZONE = """{remark}

$ iozone -i 0 -t 2{option}
Throughput test with 2 processes
Each process writes a 512 Kbyte file in 4 Kbyte records
Children see throughput for 2 rewriters = 2348392.50 KB/sec
Parent sees throughput for 2 rewriters = 1321.04 KB/sec
Min throughput per process = 1149120.75 KB/sec
Max throughput per process = 1199171.75 KB/sec
iozone test complete.
"""
CONCLUDED = "By its latency we conclude that it is an SSD."
STREAM = """{remark}

Function    Best Rate MB/s  Avg time     Min time     Max time
Copy:           {copy}     0.016111     0.015034     0.022340
Scale:          10306.5     0.016060     0.015524     0.018060
Add:            13846.4     0.017804     0.017333     0.018832
Triad:          13109.1     0.018859     0.018308     0.019612
"""
MEMORY = """# Results of the VM
VCPUs: {processors}

## Memory Benchmarking
- Optimal Concurrency:
  - {threads} threads with 8 MB blocks
"""
COPY = STREAM.format(remark="", copy="10642.6")
TWO_ROWS = """      KB  reclen  write  rewrite  read  reread
 1048576       4  412261  618937  806938  463155
 1048576       8  {}
"""
IOZONE_TABLE = "\tIozone: Performance Test of File I/O\n\n" + TWO_ROWS + "\niozone test complete.\n"
DELAYS = "We vary the inject delay. {}\n\n| Inject delay | Latency (ns) | Bandwidth (MB/s) |\n|---|---|---|\n"
DELAYS += "| 0 | 221.4 | 110201.5 |\n| 1000 | 88.0 | 16010.1 |\n"
AU = """MLPerf Storage, unet3d. Accelerator utilization (AU) = compute time / ({sum}).

| Simulated GPU | Samples | Storage | AU (%) | MiB/s |
|---|---|---|---|---|
| A100 | 3500 | NVMe | {au} | {rate} |
"""
IPERF = """Connecting to host 10.0.0.2, port 5201
[ ID] Interval           Transfer     Bandwidth
[  5]   0.00-1.00   sec  {first} GBytes  9.40 Gbits/sec
[  5]   1.00-2.00   sec  {second} GBytes  9.40 Gbits/sec
[  5]   2.00-3.00   sec  1.09 GBytes  9.40 Gbits/sec
[  5]   3.00-4.00   sec  1.09 GBytes  9.40 Gbits/sec
[  5]   4.00-5.00   sec  1.09 GBytes  9.40 Gbits/sec
[  5]   0.00-5.00   sec  {sent}{sender}
[  5]   0.00-5.00   sec  5.47 GBytes  9.40 Gbits/sec{receiver}
"""
SENT = "5.47 GBytes  9.40 Gbits/sec"


def ping(first: float, size: int = 64, host: str = "10.0.0.2") -> str:
    times = [first, *(1.7 + 0.01 * at for at in range(5))]
    lines = [f"{size} bytes from {host}: icmp_seq={at + 1} ttl=64 time={time:.2f} ms" for at, time in enumerate(times)]
    mean = sum(times) / len(times)
    return "\n".join([
        *lines, f"--- {host} ping statistics ---",
        "6 packets transmitted, 6 received, 0% packet loss, time 5022ms",
        f"rtt min/avg/max/mdev = {min(times):.3f}/{mean:.3f}/{max(times):.3f}/0.1 ms", "",
    ])  # fmt: skip


@pytest.mark.parametrize(
    ("text", "rule", "says"),
    [
        ("The mix is `--randrw --rwmixread=70` of fio.\n\n" + ROW, "no_such_option", "--rw=randrw"),
        ("fio --name=a --randread=1 --bs=4k\n\n" + ROW, "no_such_option", "no option --randread"),
        ("fio --name=a --rw=randrw --randrepeat=0 --rwmixread=70\n\n" + ROW, "no_such_option", None),
        ("Another tool takes `--randrw`.\n\n" + ROW, "no_such_option", None),
        ("I installed a SATA SSD.\n\n" + DEEP, "past_device_queue", "up to 256"),
        ("The disk is an eMMC.\n\n" + DEEP, "past_device_queue", "command queue"),
        ("The drive is a SATA SSD. Queue depth was changed from `1` to `1024`." + READS.format(500, 510),
         "past_device_queue", "up to 1,024"),
        ("I installed an NVMe SSD.\n\n" + DEEP, "past_device_queue", None),
        ("I installed a SATA SSD.\n\n" + ROW, "past_device_queue", None),
        ("I used a SATA drive and then I used an NVMe drive.\n\n" + DEEP, "past_device_queue", None),
        ("An IO depth of `16` was used.\n\n" + SHALLOW, "beyond_stated_depth", "18.0 in flight"),
        ("An IO depth of `18` was used.\n\n" + SHALLOW, "beyond_stated_depth", None),
        ("An IO depth of 16 was used, and then an IO depth of 32.\n\n" + SHALLOW, "beyond_stated_depth", None),
        ("fio --iodepth=8 --numjobs=2\n\n" + SHALLOW, "beyond_stated_depth", None),
        ("I installed a SATA SSD." + READS.format(250, 252), "near_older_link", "84% of what a link of 3 Gbit/s"),
        ("I installed a SATA SSD." + READS.format(250, 530), "near_older_link", None),
        ("I installed a SATA hard disk." + READS.format(250, 252), "near_older_link", None),
        ("I installed a SATA SSD." + READS.format(250, 252).replace("read", "write"), "near_older_link", None),
        (EMMC.format("by fio") + READS.format(380, 2100), "beyond_endpoint", "2,100 MB/s is no transfer to or from"),
        (EMMC.format("by fio") + READS.format(200, 280), "beyond_endpoint", None),
        (EMMC.format("not").replace("We", "We have not") + READS.format(200, 2100), "beyond_endpoint", None),
        ("Files are copied from an NVMe drive to USB 2.0 sticks." + READS.format(30, 900), "beyond_endpoint", "USB 2"),
        (HUGE.format("4 GiB"), "block_beyond_call", "4 blocks, and 4 in flight are all of it"),
        (HUGE.format("1 GiB"), "block_beyond_call", None),
        (COUPLED[0] + rows(*COUPLED[1:]), "settings_confounded", "2,097 MB/s"),
        (rows(*COUPLED[1:]), "settings_confounded", None),
        (COUPLED[0] + rows(*COUPLED[1:], "random read | 1M | 16 | 1900 | 1992.3 | 8421"), "settings_confounded", None),
        (RATED + WRITE.format("262000", "1073"), "steady_rating", "130,000"),
        (RATED + WRITE.format("120000", "491.5"), "steady_rating", None),
        (RATED + WRITE.format("262000", "1073").replace("write", "read"), "steady_rating", None),
        (RATED.replace("data center ", "") + WRITE.format("262000", "1073"), "steady_rating", None),
        (INVERSE.format("") + RISING, "called_inverse", "41.0 MB/s at 100 µs, then 164 MB/s at 400 µs"),
        (INVERSE.format(" at a fixed depth") + RISING, "called_inverse", None),
        (INVERSE.format("").replace("is an", "is not an") + RISING, "called_inverse", None),
        (INVERSE.format("") + rows("random read | 4k | 1 | 10000 | 41.0 | 100"), "called_inverse", None),
        (IOZONE.format(remark=CONCLUDED, option=""), "disk_kind_by_cache", "1 of 1 storage result is"),
        (IOZONE.format(remark=CONCLUDED, option=" -I"), "disk_kind_by_cache", None),
        (IOZONE.format(remark="The vendor says that it is an SSD.", option=""), "disk_kind_by_cache", None),
        (IOZONE.format(remark="The best result for fread: 1149 MB/sec.", option=""), "quoted_part", "the slowest of 2"),
        (IOZONE.format(remark="The best result is 2348 MB/sec.", option=""), "quoted_part", None),
        (IOZONE.format(remark="The slowest process has 1149 MB/sec.", option=""), "quoted_part", None),
        (STREAM.format(remark="STREAM's best rate is 10642 MB/sec.", copy="10642.6"), "quoted_part", "STREAM's Copy"),
        (STREAM.format(remark="STREAM's best rate is 13846 MB/sec.", copy="10642.6"), "quoted_part", None),
        (STREAM.format(remark="STREAM's best rate is 13700 MB/sec.", copy="13700.6"), "quoted_part", None),
        (IOZONE_TABLE.format("618937  806938  463155  275690"), "copied_cells", None),
        (IOZONE_TABLE.format("412261  618937  806938  463155"), "copied_cells", "share 4 figures"),
        (IOZONE_TABLE.format("422261  618931  806938  463156"), "copied_cells", None),
        (DELAYS.format("Bandwidth decreases as the injection rate increases."), "delay_called_rate", "is a delay"),
        (DELAYS.format("Bandwidth decreases as the injection delay increases."), "delay_called_rate", None),
        (DELAYS.format("Bandwidth grows as the injection rate increases."), "delay_called_rate", None),
        (MEMORY.format(processors=2, threads=8) + COPY, "optimal_threads", "names 2 processors"),
        (MEMORY.format(processors=8, threads=8) + COPY, "optimal_threads", None),
        (MEMORY.format(processors=2, threads=8).replace("Memory", "Disk") + COPY, "optimal_threads", None),
        (MEMORY.format(processors=2, threads=8).replace("VCPUs: 2", "4 cores, 8 threads") + COPY,
         "optimal_threads", None),
        (AU.format(sum="compute time + load time", au=99.16, rate=1528), "utilization_formula", "191 GB/s"),
        (AU.format(sum="compute time + load time", au=55.0, rate=847), "utilization_formula", None),
        (AU.format(sum="compute time + checkpoint pauses", au=99.16, rate=1528), "utilization_formula", None),
        (IPERF.format(first=0.09, second=0.09, sent=SENT, sender=" sender", receiver=" receiver"),
         "intervals_apart", "add up to 3.7 GB"),
        (IPERF.format(first=0.09, second=0.09, sent="0.00 Bytes  0.00 bits/sec", sender="", receiver=""),
         "intervals_apart", "5.87 GB"),
        (IPERF.format(first=1.09, second=1.10, sent=SENT, sender=" sender", receiver=" receiver"),
         "intervals_apart", None),
        (ping(3.38), "first_reply", "the other 5 have 1.72 ms"),
        (ping(1.75), "first_reply", None),
        (ping(1.7, size=64008), "large_echo", "in 44 packets"),
        (ping(1.7, size=64008, host="127.0.0.1"), "large_echo", None),
        (ping(1.7, size=1408), "large_echo", None),
        (ping(1.7), "large_echo", None),
    ],
)  # fmt: skip
def test_what_a_text_states_is_checked(text: str, rule: str, says: str | None, tmp_path: Path) -> None:
    found = [finding for finding in audited(text, tmp_path).findings if finding.rule == rule]
    assert [says in finding.says for finding in found] == [True] if says is not None else not found


def test_lines_of_both_ends_without_names_are_one_test(tmp_path: Path) -> None:
    text = IPERF.format(first=1.09, second=1.10, sent="0.00 Bytes  0.00 bits/sec", sender="", receiver="")
    (point,) = points(audited(text, tmp_path))
    assert point.throughput.value == pytest.approx(9.4e9 / 8) and point.samples is not None


def test_sentences_end_with_paragraphs_items_and_stops() -> None:
    text = "One is here. Two\ngoes on!\n\n- three\n- four (e.g. five)\n| six | 6 |\n"
    assert list(split_sentences(text)) == [
        "One is here.", "Two goes on!", "- three", "- four (e.g. five)", "| six | 6 |",
    ]  # fmt: skip
