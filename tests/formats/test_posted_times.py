"""Times of requests that load tests print by statistic, over several lines, as people post them."""

from __future__ import annotations

import pytest
from hwdyno import formats
from hwdyno.model.words import Measurement


def points(text: str) -> list[Measurement]:
    runs = formats.read_every(text, "post.txt")[0]
    return [point for run in runs for result in run.experiments for point in result.points]


def times(text: str) -> list[dict[str, float]]:
    """The printed times of each point that has any, in ms."""
    found = []
    for point in points(text):
        printed = point.details["printed"]
        found.append({name[4:]: value * 1e3 for name, value in printed.items() if name.startswith("lat_")})
    return [of for of in found if of]


TIMES: dict[str, tuple[str, list[dict[str, float]]]] = {
    "columns of statistics above a row": (
        "  4 threads and 50 connections\n  Thread Stats   Avg      Stdev     Max   +/- Stdev\n"
        "    Latency    16.25ms   70.75ms   1.50s    96.60%\n    Req/Sec   255.47    188.81   670.00     65.98%\n"
        "  Latency Distribution\n     50%    4.50ms\n     75%    7.50ms\n     99%  245.50ms\n"
        "  2606 requests in 10.07s, 2.96MB read\nRequests/sec:    258.88\n",
        [{"mean": 16.25, "stdev": 70.75, "max": 1500}, {"p50": 4.5, "p75": 7.5, "p99": 245.5}],
    ),
    "the unit in the label of the row": (
        "Stat         Avg     Stdev     Max\nLatency (ms) 51.5    18.25     631\nReq/Sec      19183.6 1286.36   20975\n"
        "Bytes/Sec    2.13 MB 144.66 kB 2.36 MB\n",
        [{"mean": 51.5, "stdev": 18.25, "max": 631}],
    ),
    "the unit in the heading": (
        "Requests per second:    86.89 [#/sec] (mean)\n\nPercentage of the requests served within a certain time (ms)\n"
        "  50%    622\n  90%    795\n  99%   3484\n 100%   9355 (longest request)\n",
        [{"p50": 622, "p90": 795, "p99": 3484, "max": 9355}],
    ),
    "columns in the unit of the heading": (
        "  throughput summary: 1165.25 requests per second\n  latency summary (msec):\n"
        "          avg       min       p50       p99       max\n"
        "        0.338     0.096     0.295     0.871     5.871\n",
        [{"mean": 0.338, "min": 0.096, "p50": 0.295, "p99": 0.871, "max": 5.871}],
    ),
    "words around the times": (
        "Summary:\n  Total:\t20.6886 secs\n  Slowest:\t0.6250 secs\n  Fastest:\t0.1250 secs\n  Average:\t0.3750 secs\n"
        "  Requests/sec:\t24.1679\n\nLatency distribution:\n  50% in 0.2500 secs\n  99% in 0.6225 secs\n",
        [{"max": 625, "min": 125, "mean": 375}, {"p50": 250, "p99": 622.5}],
    ),
    "a list of statistics in brackets": (
        "Requests      [total, rate]            200, 19.35\n"
        "Latencies     [mean, 50, 95, 99, max]  646.5ms, 451.5ms, 1.5s, 2.25s, 1m2.5s\n",
        [{"mean": 646.5, "p50": 451.5, "p95": 1500, "p99": 2250, "max": 62500}],
    ),
    "a list of statistics by slashes": (
        "4 requests completed in 3.00 s, 2.08 k iops, 8.15 MiB/s\n"
        "min/avg/max/mdev = 288 us / 479 us / 752 us / 169 us\n",
        [{"min": 0.288, "mean": 0.479, "max": 0.752, "stdev": 0.169}],
    ),
    "the statistic behind its time": (
        "1000 records sent, 8770.5 records/sec (83.64 MB/sec), 331.25 ms avg latency, 1618.00 ms max latency, "
        "320 ms 50th, 372 ms 95th, 856 ms 99th, 1461 ms 99.9th.\n",
        [{"mean": 331.25, "max": 1618, "p50": 320, "p95": 372, "p99": 856, "p999": 1461}],
    ),
    "a sum beside the statistics of a line": (
        "Overall query rate: 189.61 queries/sec\n"
        "min:  3.60ms, med:  4.75ms, mean:  5.25ms, max:  13.25ms, stddev:  1.50ms, sum:   1.1sec, count: 200\n",
        [{"min": 3.6, "p50": 4.75, "mean": 5.25, "max": 13.25, "stdev": 1.5}],
    ),
    "a latency before its time": (
        "progress: 10.0 s, 8.0 tps, lat 7055.25 ms stddev 9.5\n",
        [{"mean": 7055.25, "stdev": 9.5}],
    ),
    "the mean of a latency beside its last value": (
        "[RUN #1 100%, 9 secs] 0 threads: 900 ops, 3500 (avg:  3600) ops/sec, 111.0MB/sec (avg: 112.5MB/sec), "
        " 0.62 (avg:  0.56) msec latency\n",
        [{"mean": 0.56}],
    ),
    "words that look like a command": (
        "number of clients: 1\nlatency average: 9.25 ms\ntps = 108.25 (including connections establishing)\n",
        [{"mean": 9.25}],
    ),
    "a share of something else": ("Cache hits\n  50% 4 ms\n  99% 8 ms\nRead: 5 MB/s\n", []),
    "a test of nothing": (
        "  Thread Stats   Avg      Stdev     Max   +/- Stdev\n    Latency     0.00us    0.00us   0.00us    -nan%\n"
        "Requests/sec:   10.00\n",
        [],
    ),
}


@pytest.mark.parametrize("name", TIMES)
def test_times_are_read_by_statistic(name: str) -> None:
    text, expected = TIMES[name]
    assert times(text) == [pytest.approx(of) for of in expected]


def test_a_row_of_rates_is_its_mean() -> None:
    found = [
        (point.throughput.value, point.throughput.unit)
        for point in points(TIMES["the unit in the label of the row"][0])
    ]
    assert found[1:] == [(19183.6, "operations/s"), (2.13e6, "bytes/s")]
