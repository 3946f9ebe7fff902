"""``hwdyno storage snia TEST``: a test of SNIA's specification, scaled by ``--profile`` and ``--budget``."""

from __future__ import annotations

import argparse
import sys

from hwdyno.cli import dry_run
from hwdyno.cli.options import make_request
from hwdyno.cli.perform import choose_host, perform_scenario
from hwdyno.cli.statuses import OK
from hwdyno.measure.hosts import Host
from hwdyno.measure.scenarios import make_scenario
from hwdyno.measure.scenarios.snia import SniaScenario
from hwdyno.model.units import format_duration


def run(names: list[str], args: argparse.Namespace) -> int:
    """Perform the named test."""
    host = choose_host(args)
    scenario = make_scenario(make_request(args, "storage snia", experiments=tuple(names)), host)
    if args.dry_run and isinstance(scenario, SniaScenario):
        return list_test(scenario, host)
    return perform_scenario(scenario, args, host)


def list_test(scenario: SniaScenario, host: Host) -> int:
    """List the test of a dry run; measures and writes nothing."""
    from hwdyno.measure.experiments.storage_snia import CELL_S, ROUNDS, matches
    from hwdyno.measure.runner.snia import LONGEST_S

    plan = scenario.plan
    preparations, write_bytes_s = scenario.prepares(), dry_run.write_speed(scenario, host)
    dry_run.list_preparations(preparations, write_bytes_s)
    every = sum(matches(point, scenario.test.each_round or {}) for point in plan.experiments[0].points)
    longest_s = LONGEST_S.get(plan.profile.name, CELL_S)
    sys.stdout.write(
        f"rounds: 5 to {ROUNDS} of {every} workloads, at most {format_duration(longest_s)} each\n"
        f"then once: {len(plan.experiments[0].points) - every} workloads\n"
        f"time: {format_duration(plan.budget_s)} at most\n"
        if plan.budget_s is not None
        else f"rounds: 5 to {ROUNDS} of {every} workloads of {format_duration(longest_s)} each, until steady\n"
    )
    points = scenario.points(write_bytes_s)
    sys.stdout.write(dry_run.format_record(points) + dry_run.format_total(points, preparations, write_bytes_s))
    return OK
