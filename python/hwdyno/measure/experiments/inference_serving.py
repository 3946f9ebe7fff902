"""Questions about a served language model: its throughput and times by concurrency and by rate, served or not."""

from __future__ import annotations

from hwdyno.measure.experiments.experiment import Experiment
from hwdyno.measure.sweep import Sweep, powers

KERNEL = "inference_serving"
IN_PROCESS_KERNEL = "inference_in_process"
SERVER = "http://127.0.0.1:8000"
PEERS = ("vllm_bench", "guidellm", "aiperf")

# Each server has a copy, whose `fixed` has its own address.
SERVING = Experiment(
    name="inference.serving",
    asks="Tokens/s and latency by concurrent requests",
    kernel=KERNEL,
    load="concurrency",
    sweep=Sweep(concurrency=powers(1, 64)),
    quick=Sweep(concurrency=(1, 4, 16)),
    base=Sweep(concurrency=1),
    fixed={"server": SERVER},
    named_as={"server": "server"},
    peers=PEERS,
    default=False,
)

SERVING_RATE = Experiment(
    name="inference.serving_rate",
    asks="Latency by request rate (open loop)",
    kernel=KERNEL,
    load="rate",
    sweep=Sweep(rate=(1.0, 2.0, 5.0, 10.0, 20.0)),
    fixed={"server": SERVER, "arrivals": "poisson"},
    peers=PEERS,
    named_as={"server": "server"},
    default=False,
)

# A rate of 0 leaves the trace its own times.
SERVING_TRACE = Experiment(
    name="inference.serving_trace",
    asks="Latency of a replayed trace (open loop)",
    kernel=KERNEL,
    load="rate",
    sweep=Sweep(rate=0.0),
    fixed={"server": SERVER, "arrivals": "trace"},
    named_as={"server": "server"},
    default=False,
)

# The same questions of a model in a process; each model has a copy, whose `fixed` and `settled` have it.
IN_PROCESS = Experiment(
    name="inference.in_process",
    asks="Tokens/s and latency in this process by users",
    kernel=IN_PROCESS_KERNEL,
    load="concurrency",
    sweep=Sweep(concurrency=powers(1, 16)),
    quick=Sweep(concurrency=(1, 4, 16)),
    base=Sweep(concurrency=1),
    named_as={"stack": "in-process", "model": "model"},
    setup_s=1.5,
    default=False,
)

IN_PROCESS_RATE = Experiment(
    name="inference.in_process_rate",
    asks="Latency of a model in this process by request rate",
    kernel=IN_PROCESS_KERNEL,
    load="rate",
    sweep=Sweep(rate=(1.0, 2.0, 5.0, 10.0, 20.0)),
    fixed={"arrivals": "poisson"},
    named_as={"stack": "in-process", "model": "model"},
    setup_s=1.5,
    default=False,
)

IN_PROCESS_TRACE = Experiment(
    name="inference.in_process_trace",
    asks="Latency of a trace replayed in this process (open loop)",
    kernel=IN_PROCESS_KERNEL,
    load="rate",
    sweep=Sweep(rate=0.0),
    fixed={"arrivals": "trace"},
    named_as={"stack": "in-process", "model": "model"},
    setup_s=1.5,
    default=False,
)
