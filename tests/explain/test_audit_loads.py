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


@pytest.mark.parametrize(
    ("text", "rule", "says"),
    [
        (REQUESTED.format(rate=200, served=5.99), "requested_rate", "200 operations/s were requested, and 5.99 (3.0%)"),
        (REQUESTED.format(rate=6, served=5.99), "requested_rate", ""),
        (REQUESTED.format(rate="inf", served=5.99), "requested_rate", ""),
        (CROWD, "sent_at_once", "562 in flight on average, of 1,000 in all. TTFT, 9.63 s"),
        (STREAM, "sent_at_once", ""),
        (DLIO.format(au="0.0000", rate="0.0000"), "zero_result", "its figures are zeros"),
        (DLIO.format(au="0.0000", rate="0.0000"), "failed_au", ""),
        (DLIO.format(au="50.00", rate="91.5"), "zero_result", ""),
        (DLIO.format(au="50.00", rate="91.5"), "failed_au", "50%"),
    ],
)
def test_a_load_is_named_where_it_decides_the_figures(text: str, rule: str, says: str, tmp_path: Path) -> None:
    found = [finding.says for finding in audited(text, tmp_path).findings if finding.rule == rule]
    assert len(found) == bool(says) and all(says in sentence for sentence in found)
