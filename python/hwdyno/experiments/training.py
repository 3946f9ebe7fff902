"""Questions about AI training: how many accelerators a storage feeds, and what the loader itself can deliver."""

from __future__ import annotations

from hwdyno.experiments import Experiment
from hwdyno.sweep import Sweep

KERNEL = "training_loader"

# The workload, its data set and its place stand in `fixed` of a copy, made for each workload that is asked about.
ACCELERATORS = Experiment(
    name="training.accelerators",
    asks="How many of which accelerator can this storage feed, and if not, what stops it?",
    kernel=KERNEL,
    load="accelerators",
    sweep=Sweep(accelerators=(1, 2, 4)),
    base=Sweep(accelerators=1),
    fixed={"cache": "drop", "seed": 10},
    peers=("dlio",),
    default=False,
)

CLIENT = Experiment(
    name="training.client",
    asks="What does the loader itself deliver, with no computing and all data in memory?",
    kernel=KERNEL,
    load="accelerators",
    sweep=Sweep(accelerators=(1, 2, 4)),
    fixed={"cache": "warm", "compute": 0.0, "epochs": 10_000, "steps": 0, "seed": 10},
    peers=("dlio",),
    default=False,
)

CHECKPOINT = Experiment(
    name="training.checkpoint",
    asks="How fast does this storage take a checkpoint, and give it back?",
    kernel="training_checkpoint",
    load="ranks",
    sweep=Sweep(ranks=8),
    default=False,
)
