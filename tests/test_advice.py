"""Every command that a finding advises is one that the command line takes as it is pasted."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest
from hwdyno.cli import resource, storage
from hwdyno.cli.main import Parser
from hwdyno.findings import explain
from hwdyno.hosts.simulated import SimulatedHost, SimulatedMachine
from hwdyno.words import Parameters, Run
from simulated_runs import experiment, run_of

AXES: dict[str, list[Parameters]] = {
    "iodepth": [{"rw": "randread", "bs": 4096, "iodepth": 2**n, "numjobs": 1} for n in range(9)],
    "bs": [{"rw": rw, "bs": 4096 << n, "iodepth": 8, "numjobs": 1} for rw in ("read", "randwrite") for n in range(6)],
    "numjobs": [
        {"rw": "randrw", "rwmixread": 70, "bs": 4096, "iodepth": 8, "numjobs": 2**n, "direct": True} for n in range(4)
    ],
}
RUNS = [(axis, seed, noise) for axis in AXES for seed in range(4) for noise in (0.005, 0.4)]


def advised(run: Run) -> list[str]:
    """The storage commands in a Run's advice."""
    return [
        found
        for one in run.findings
        for found in re.findall(r"hwdyno storage (?:--[\w-]+(?: [^-\s]\S*)? ?)+", one.advice)
    ]


def test_every_advised_command_is_taken_as_it_is_pasted(tmp_path: Path) -> None:
    count = 0
    for axis, seed, noise in RUNS:
        machine = SimulatedMachine.random(seed, noise=noise)
        run = explain(run_of(machine, experiment(machine, axis, AXES[axis], repeats=3)))
        for line in advised(run):
            parser = Parser(prog="hwdyno storage")
            storage.add(parser)
            try:
                args = parser.parse_args([*shlex.split(line)[2:], "--path", str(tmp_path)])
                assert resource.plan_of("storage", storage.KERNEL, args, SimulatedHost(machine)).experiments[0].points
            except (SystemExit, Exception) as error:
                pytest.fail(f"{line}: {error}")
            count += 1
    assert count > 20
