"""``hwdyno storage snia TEST``: a test of SNIA's specification, scaled by ``--profile`` and ``--budget``."""

from __future__ import annotations

import argparse
import sys

from hwdyno.cli import common
from hwdyno.cli.main import OK
from hwdyno.measure.scenarios import snia
from hwdyno.model.units import format_duration


def run(names: list[str], args: argparse.Namespace) -> int:
    """Perform the named test."""
    host = common.this_machine()
    request = common.request_of(args, "hwdyno storage", options={**vars(args), "tests": names})
    scenario = snia.make(request, host)
    return listed(scenario) if args.dry_run else common.perform(scenario, args, host)


def listed(scenario: snia.SniaScenario) -> int:
    """List the test of a dry run; measures and writes nothing."""
    from hwdyno.measure.experiments.storage_snia import CELL_S, ROUNDS, matches
    from hwdyno.measure.runner.snia import LONGEST_S

    plan = scenario.plan
    preparations, write_bytes_s = scenario.prepares(), common.write_speed(scenario, common.this_machine())
    common.list_preparations(preparations, write_bytes_s)
    every = sum(matches(point, scenario.test.each_round or {}) for point in plan.experiments[0].points)
    longest_s = LONGEST_S.get(plan.profile.name, CELL_S)
    sys.stdout.write(
        f"rounds: 5 to {ROUNDS} of {every} workloads, at most {format_duration(longest_s)} each\n"
        f"then once: {len(plan.experiments[0].points) - every} workloads\n"
        f"time: {format_duration(plan.budget_s)} at most\n"
        if plan.budget_s is not None
        else f"rounds: 5 to {ROUNDS} of {every} workloads of {format_duration(longest_s)} each, until steady\n"
    )
    sys.stdout.write(common.total_of(scenario.points(write_bytes_s), preparations, write_bytes_s))
    return OK
