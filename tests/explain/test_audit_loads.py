"""What an audit says of the load that a published result states or implies."""

from __future__ import annotations

from pathlib import Path

import pytest
from audited import audited

# github.com/vllm-project/vllm/issues/359, and pull request 18566.
REQUESTED = """python benchmark_serving.py --backend vllm --request-rate {rate} --port 9009
Total time: 166.88 s
Throughput: {served} requests/s
Average latency: 67.59 s
"""
SERVED = """============ Serving Benchmark Result ============
Successful requests:                     1000
Benchmark duration (s):                  {seconds}
Total generated tokens:                  203068
Request throughput (req/s):              {rate}
Output token throughput (tok/s):         {tokens}
---------------Time to First Token----------------
Mean TTFT (ms):                          {ttft}
Median TTFT (ms):                        {ttft}
---------------Inter-token Latency----------------
Mean ITL (ms):                           38.13
Median ITL (ms):                         25.44
==================================================
"""
CROWD = SERVED.format(seconds=30.85, rate=32.42, tokens=6582.87, ttft=9626.13)
STREAM = SERVED.format(seconds=500.0, rate=2.0, tokens=406.14, ttft=80.0)
# github.com/argonne-lcf/dlio_benchmark/issues/285.
DLIO = """[METRIC] Number of Simulated Accelerators: 1
[METRIC] Training Accelerator Utilization [AU] (%): {au} (0.0000)
[METRIC] Training Throughput (samples/second): {rate} (0.0000)
[METRIC] Training I/O Throughput (MB/second): {rate} (0.0000)
[METRIC] train_au_meet_expectation: fail
"""
SYSBENCH = """### Test with {threads} threads
General statistics:
    total time:                          {seconds}s
    total number of events:              {events}

Latency (ms):
         min:                                  3.06
         avg:                                  {mean}
         max:                                  {most}
         95th percentile:                      3.82
"""
# github.com/akopytov/sysbench/issues/286.
TEN = SYSBENCH.format(threads=10, seconds=10.0052, events=32189, mean=3.10, most=7.36)
WAITING = SYSBENCH.format(threads=16, seconds=10.0057, events=32517, mean=4.92, most=630.72)
SERVED_TOO = SYSBENCH.format(threads=16, seconds=10.0057, events=51500, mean=3.11, most=7.40)
SLOWER = SYSBENCH.format(threads=10, seconds=10.0052, events=20000, mean=5.00, most=7.36)
WRK = "  900 requests in 10.07s, 2.96MB read\n{failed}Requests/sec:    90.00\n"
AB = "Complete requests:      1000\n{failed}\nRequests per second:    86.89 [#/sec] (mean)\n"
HEY = "Summary:\n  Requests/sec:\t24.1679\n\nStatus code distribution:\n  [200]\t250 responses\n{failed}\n"
LENGTHS = "Failed requests:        900\n   (Connect: {lost}, Receive: 0, Length: 900, Exceptions: 0)"


@pytest.mark.parametrize(
    ("text", "rule", "says"),
    [
        (REQUESTED.format(rate=200, served=5.99), "requested_rate", "200 operations/s were requested, and 5.99 (3.0%)"),
        (REQUESTED.format(rate=6, served=5.99), "requested_rate", ""),
        (REQUESTED.format(rate="inf", served=5.99), "requested_rate", ""),
        (CROWD, "sent_at_once", "562 in flight on average, of 1,000 in all. TTFT, 9.63 s"),
        (STREAM, "sent_at_once", ""),
        (TEN + WAITING, "more_load_waits", "3.22 k/s and 3.25 k/s. About 10 are served at a time"),
        (TEN + SERVED_TOO, "more_load_waits", ""),
        (SLOWER + WAITING, "more_load_waits", ""),
        (WAITING, "more_load_waits", ""),
        (
            WRK.format(failed="  Socket errors: connect 0, read 90, write 0, timeout 10\n"),
            "failed_requests",
            "10% of the requests failed ('Socket errors: connect 0, read 90, write 0, timeout 10')",
        ),
        (WRK.format(failed="  Socket errors: connect 0, read 0, write 0, timeout 1\n"), "failed_requests", ""),
        (WRK.format(failed="  Non-2xx or 3xx responses: 450\n"), "failed_requests", "50% of"),
        (WRK.format(failed=""), "failed_requests", ""),
        (AB.format(failed=LENGTHS.format(lost=0)), "failed_requests", ""),
        (AB.format(failed=LENGTHS.format(lost=20)), "failed_requests", "2.0% of"),
        (HEY.format(failed='\nError distribution:\n  [250]\tGet "http://h:1/p": EOF'), "failed_requests", "50% of"),
        (HEY.format(failed="  [503]\t250 responses"), "failed_requests", "50% of"),
        (HEY.format(failed=""), "failed_requests", ""),
        ("vllm bench serve --num-prompts 2000\n" + STREAM, "failed_requests", "50% of"),
        ("vllm bench serve --num-prompts 1000\n" + STREAM, "failed_requests", ""),
        (DLIO.format(au="0.0000", rate="0.0000"), "zero_result", "its figures are zeros"),
        (DLIO.format(au="0.0000", rate="0.0000"), "failed_au", ""),
        (DLIO.format(au="50.00", rate="91.5"), "zero_result", ""),
        (DLIO.format(au="50.00", rate="91.5"), "failed_au", "50%"),
    ],
)
def test_a_load_is_named_where_it_decides_the_figures(text: str, rule: str, says: str, tmp_path: Path) -> None:
    found = [finding.says for finding in audited(text, tmp_path).findings if finding.rule == rule]
    assert len(found) == bool(says) and all(says in sentence for sentence in found)
