"""Results of processors, GPUs and training as people post them: cut outputs, matrices, percentiles, ceilings."""

from __future__ import annotations

import pytest
from hwdyno import formats
from hwdyno.model.words import Measurement, UserError


def points(text: str) -> list[Measurement]:
    runs, _ = formats.read_every(text, "post.txt")
    return [point for run in runs for result in run.experiments for point in result.points]


def resources(text: str) -> set[str]:
    return {result.resource for run in formats.read_every(text, "post.txt")[0] for result in run.experiments}


FIGURES: dict[str, tuple[str, list[tuple[float, str]]]] = {
    "rows of a collective without heads": (
        "       32768          8192  float  sum  -1  18.75    1.75    3.06       0    18.0    1.82    3.19       0\n"
        "       65536         16384  float  sum  -1  19.00    3.45    6.04       0    18.5    3.54    6.20       0\n",
        [(1.75e9, "bytes/s"), (1.82e9, "bytes/s"), (3.45e9, "bytes/s"), (3.54e9, "bytes/s")],
    ),
    "counts of blocks in a time": (
        "Doing AES-128-GCM for 3s on 16 size blocks: 150000000 AES-128-GCM's in 2.50s\n"
        "Doing AES-128-GCM for 3s on 64 size blocks: 50000000 AES-128-GCM's in 2.00s\n"
        "Doing AES-128-GCM for 3s on 256 size blocks: 60000 AES-128-GCM's in 0.01s\n",
        [(960e6, "bytes/s"), (1600e6, "bytes/s")],
    ),
    "a table in k of 1000 bytes": (
        "Before:\ntype              16 bytes     64 bytes\nAES-128-GCM      87073.25k   348064.50k\n"
        "chacha20-poly1305      87214.25k   347533.50k\n",
        [(87073250.0, "bytes/s"), (348064500.0, "bytes/s"), (87214250.0, "bytes/s"), (347533500.0, "bytes/s")],
    ),
    "two groups of columns by dictionary": (
        "RAM usage:    111 MB,  # Benchmark threads:      1\n\n"
        "                       Compressing  |                  Decompressing\n"
        "Dict     Speed Usage    R/U Rating  |      Speed Usage    R/U Rating\n"
        "         KiB/s     %   MIPS   MIPS  |      KiB/s     %   MIPS   MIPS\n\n"
        "22:        330   100    322    322  |       5850   100    499    499\n"
        "----------------------------------  | ------------------------------\n"
        "Avr:             100    322    322  |              100    499    499\n",
        [(330 * 1024.0, "bytes/s"), (5850 * 1024.0, "bytes/s")],
    ),
    "a matrix of pairs": (
        "Unidirectional P2P=Disabled Bandwidth Matrix (GB/s)\n   D\\D     0      1\n"
        "     0 910.25  20.50\n     1  20.25 920.50\n"
        "P2P=Disabled Latency Matrix (us)\n   GPU     0      1\n     0   1.50  11.25\n     1  11.50   1.75\n",
        [
            *((value * 1e9, "bytes/s") for value in (910.25, 20.5, 20.25, 920.5)),
            *((value * 1e-6, "s") for value in (1.5, 11.25, 11.5, 1.75)),
        ],
    ),
    "a log's level in brackets": (
        "[10/03/2024-10:47:59] [I] === Summary ===\n[10/03/2024-10:47:59] [I] Throughput: 130.25 qps\n"
        "[10/03/2024-10:47:59] [I] Latency: min = 5.5 ms, max = 13.5 ms, mean = 7.5 ms, median = 7.25 ms, "
        "percentile(90%) = 10.25 ms, percentile(99%) = 12.5 ms\n",
        [(130.25, "operations/s")],
    ),
    "rates of bits in a text on a network": (
        "Running `iperf3 -c host -t 10` we see ~7.9Gbps.\nThe host has a 100 Gbps port.\n",
        [(7.9e9 / 8, "bytes/s")],
    ),
    "several named numbers in a line": (
        "  Throughput (since last show)\n  Rx-pps:     12254848          Rx-bps:  99999562856\n"
        "  Tx-pps:            0          Tx-bps:            0\n",
        [(12254848.0, "operations/s"), (99999562856 / 8, "bytes/s")],
    ),
    "code in Markdown by its indentation": (
        "Results of it:\n\n\tstress-ng: info:  [9] stressor  bogo ops real time  usr time  sys time   bogo ops/s"
        "   bogo ops/s\n\tstress-ng: info:  [9] cpu                2044      5.00      4.99      0.00       408.75"
        "       409.5\n",
        [(408.75, "operations/s")],
    ),
    "the ends of ranges are no figures": (
        "I tested it with wi-fi.\nDriver 9 gave anywhere from 13Mbps to 105 Mbps.\n"
        "batch size 8, 512x512, 5.49~5.60 it/s\n"
        "about 5.5k-6K samples/sec\nDriver 8 gave 106 Mbps (on a 125 Mbps line)\n",
        [(106e6 / 8, "bytes/s")],
    ),
    "what is specified is not measured": (
        "GPU0-GPU1 = 260.75 (GB/s) \nThe spec says the bandwidth is 300 GB/s.\n"
        "The reader has 118.5 GB/s out of the 120 GB/s theoretical peak.\n",
        [(260.75e9, "bytes/s"), (118.5e9, "bytes/s")],
    ),
    "labels in brackets behind": (
        "I expected 12-13 GB/s of this RAM but I achieved 14 GB/s (INTmem), 15 GB/s (SSEmem).\n",
        [(14e9, "bytes/s"), (15e9, "bytes/s")],
    ),
    "a unit in brackets in a column of values": (
        "| Driver | Scenario | Duration | Avg value |\n|---|---|---|---|\n"
        "| iperf3 | TCP_STREAM | 30 | 84504.5 (Mb/s) |\n| netperf | TCP_STREAM | 30 | 6544.25 (Mb/s) |\n",
        [(84504.5e6 / 8, "bytes/s"), (6544.25e6 / 8, "bytes/s")],
    ),
    "other heads among the rows": (
        "benchmarking cuda\nsize, elapsed_time, tops\n256, 0.004, 0.008\n304, 0.00002, 2.75\n"
        "size (GB), elapsed_time, bandwidth (GB/s)\n0.0042, 0.00001, 464.25\n0.0059, 0.00002, 426.75\n",
        [(0.004, "s"), (0.00002, "s"), (464.25e9, "bytes/s"), (426.75e9, "bytes/s")],
    ),
    "decimal commas in a text": (
        "40,303,104 at 0,625 MB/s zstd 22\n40,303,104 at 4,250 MB/s lz 17\n",
        [(0.625e6, "bytes/s"), (4.25e6, "bytes/s")],
    ),
    "several rates behind one name": (
        "Main (2 trials):\n\nThroughput: 24.5 requests/s, 12453.25 tokens/s\n"
        "Throughput: 24.25 requests/s, 12342.75 tokens/s\n",
        [(value, "operations/s") for value in (24.5, 12453.25, 24.25, 12342.75)],
    ),
    "a log that names its values": (
        " [2024-04-06 03:02:12] iteration       71/     100 | elapsed time per iteration (ms): 5361.5 | "
        "throughput per GPU (TFLOP/s/GPU): 243.5 | learning rate: 1.42E-05 | lm loss: 1.8E+00 |\n"
        " [2024-04-06 03:02:18] iteration       72/     100 | elapsed time per iteration (ms): 5470.5 | "
        "throughput per GPU (TFLOP/s/GPU): 238.5 | learning rate: 1.44E-05 | lm loss: 1.7E+00 |\n",
        [(243.5e12, "FLOP/s"), (238.5e12, "FLOP/s")],
    ),
    "a table right below its sentence": (
        "The results are as follows:\nGPUs   Training time(s)       samples/sec\n1           657      52.75\n"
        "2           844      97.5\n\nIt is no better with four.\n",
        [(52.75, "operations/s"), (97.5, "operations/s")],
    ),
}


@pytest.mark.parametrize("shape", FIGURES)
def test_posted_rates(shape: str) -> None:
    text, expected = FIGURES[shape]
    found = [(point.throughput.value, point.throughput.unit) for point in points(text)]
    assert [unit for _, unit in found] == [unit for _, unit in expected]
    assert [value for value, _ in found] == pytest.approx([value for value, _ in expected])


def test_a_rate_beside_its_ceiling() -> None:
    """The size at the beginning labels the line, and the line rate in brackets is no second result."""
    text = (
        "The rate is:\n64B: 1487460 Pkts/s (line-rate: 1488095 Pkts/s)\n1280B: 97152 Pkts/s (line-rate: 96153 Pkts/s)\n"
    )
    small, large = points(text)
    assert (small.throughput.value, small.parameters["bs"]) == (1487460.0, 64)
    assert (large.throughput.value, large.parameters["bs"]) == (97152.0, 1280)
    (claim,) = large.claims
    assert (
        claim.at_most and claim.follows == 96153.0 and not any(claim.stated > claim.follows for claim in small.claims)
    )


def test_a_size_of_operations_is_no_amount() -> None:
    (point,) = points("Did 96643500 seal (16 bytes) operations in 10000012us (9664250.5 ops/sec): 154.625 MB/s\n")
    assert point.parameters["bs"] == 16
    assert point.throughput.value == 154.625e6
    assert not point.claims


def test_rows_of_percentiles_are_one_result() -> None:
    text = "Percentile       Latency(us)\n     50%         39\n     99%         148\n   99.9%         530\n"
    (point,) = points(text)
    printed = point.details["printed"]
    assert printed == pytest.approx({"lat_p50": 39e-6, "lat_p99": 148e-6, "lat_p999": 530e-6})


def test_heads_of_percentiles_are_no_row() -> None:
    text = (
        "+--------------+--------------+------------------------------+\n"
        "|              |              |       overhead (usec)        |\n"
        "+--------------+--------------+----------+---------+---------+\n"
        "|    Stage     | # iterations | 50.0%ile | average | overall |\n"
        "+--------------+--------------+----------+---------+---------+\n"
        "Final:                  1000      0.240  1675.942  1671.351\n"
    )
    with pytest.raises(UserError):
        points(text)


def test_intensity_and_vague_times_are_no_results() -> None:
    text = (
        "Single Precision ops,,,,              Double precision ops,,,\n"
        "Compute iters, Flops/byte, ex.time,  GFLOPS, GB/sec, Flops/byte, ex.time,  GFLOPS, GB/sec\n"
        "            0,      0.250,    0.11,  299.5,1198.5,      0.125,    0.19,  179.5,1432.5\n"
        "            1,      0.750,    0.10,  992.5,1323.5,      0.375,    0.19,  534.5,1426.5\n"
    )
    found = points(text)
    assert {point.throughput.unit for point in found} <= {"bytes/s", "FLOP/s"}
    assert resources(text) == {"compute"}


def test_steps_and_examples_are_training() -> None:
    assert resources("GPUs\tSteps/sec\tExamples/sec\n1\t0.128\t6.5\n2\t0.111\t11.5\n") == {"training"}


def test_a_protocol_is_not_assumed() -> None:
    text = "sockperf: Summary: Latency is 121.5 usec\n"
    (unknown,) = points(text)
    (known,) = points("[ 0] IP = 10.0.0.2       PORT =  8302 # TCP\n" + text)
    assert "protocol" not in unknown.parameters and known.parameters["protocol"] == "tcp"


def test_intervals_without_a_sum_have_a_mean() -> None:
    text = (
        "[  4]   0.00-1.00   sec  80.0 MBytes   672 Mbits/sec    2   1.41 KBytes\n"
        "[  4]   1.00-2.00   sec  0.00 Bytes  0.00 bits/sec    1   1.41 KBytes\n"
    )
    (point,) = points(text)
    assert point.throughput.value == pytest.approx(42e6)


def test_a_number_before_job_is_no_count_of_jobs() -> None:
    text = "2025-02-24 17:35:03\tJob ID: 9\tIteration: 100\tJob throughput: 364.75 TFLOP/s/GPU\n"
    (point,) = points(text)
    assert point.throughput.value == 364.75e12
    assert "numjobs" not in point.parameters


def test_a_count_of_requests_is_no_order_of_equations() -> None:
    text = "| ISL | N | Tok/s |\n|---|---|---|\n| 128 | 8 | 25.5 |\n| 256 | 16 | 24.5 |\n"
    assert all("n" not in point.parameters for point in points(text))
    assert resources(text) == {"inference"}


def test_lines_with_ranges_are_counted_as_not_read() -> None:
    runs, _ = formats.read_every("The first has 10.5 GB/s.\nThe second has 5.5-6.25 GB/s.\n", "post.txt")
    assert any("5.5-6.25" in note.says for note in runs[0].notes)


def test_a_matrix_is_no_system_of_equations() -> None:
    text = "| n | k | m | TFLOPs |\n|---|---|---|---|\n| 512 | 71 | 1 | 0.25 |\n| 1024 | 81 | 8 | 176 |\n"
    assert all("n" not in point.parameters for point in points(text))


def test_a_pictures_size_is_no_block() -> None:
    text = "GPU numbers\n| Case | ours |\n|---|---|\n| 4K→1080 | 0.375 ms |\n| 1920×1080 | 0.5 ms |\n"
    assert all("bs" not in point.parameters for point in points(text))


def test_a_size_behind_a_word_labels_the_line() -> None:
    text = "Memory of the host:\nMeasuring   4kB: 124.5GB/s\nMeasuring 128MB:  37.75GB/s\n"
    assert [point.parameters["bs"] for point in points(text)] == [4096, 128 << 20]
