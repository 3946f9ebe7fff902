"""Questions about AI training: how many accelerators a storage feeds, and what the loader itself can deliver."""

from __future__ import annotations

from hwdyno.measure.experiments.experiment import Experiment
from hwdyno.measure.sweep import Sweep
from hwdyno.model.kernels import TRAINING_CHECKPOINT, TRAINING_LOADER

KERNEL = TRAINING_LOADER

# Each workload has a copy, whose `fixed` has the workload, its data set and its path.
ACCELERATORS = Experiment(
    name="training.accelerators",
    asks="Accelerators that this storage can feed",
    kernel=KERNEL,
    load="accelerators",
    sweep=Sweep(accelerators=(1, 2, 4)),
    base=Sweep(accelerators=1),
    fixed={"cache": "drop", "seed": 10},
    peers=("dlio", "numpy", "pytorch"),
)

CLIENT = Experiment(
    name="training.client",
    asks="Loader throughput with the data in memory",
    kernel=KERNEL,
    load="accelerators",
    sweep=Sweep(accelerators=(1, 2, 4)),
    fixed={"cache": "warm", "compute": 0.0, "epochs": 10_000, "steps": 0, "seed": 10},
    peers=("dlio", "numpy", "pytorch"),
)

CHECKPOINT = Experiment(
    name="training.checkpoint",
    asks="Checkpoint save and load",
    kernel=TRAINING_CHECKPOINT,
    load="ranks",
    sweep=Sweep(ranks=8),
    named_as={"model": "checkpoint"},
    writes=lambda _, point, __: float(point.get("writes") or 0) * float(point.get("checkpoint_bytes") or 0),
)
