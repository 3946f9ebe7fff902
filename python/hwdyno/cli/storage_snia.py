"""``hwdyno storage snia TEST``: a test of SNIA's specification, scaled by ``--profile`` and ``--budget``."""

from __future__ import annotations

import argparse
import sys
from dataclasses import replace
from typing import TYPE_CHECKING

from hwdyno.cli import common
from hwdyno.cli.resource import given_axes
from hwdyno.units import format_bytes, format_duration
from hwdyno.words import UserError

if TYPE_CHECKING:
    from hwdyno.experiments.storage_snia import SniaTest
    from hwdyno.hosts import Host
    from hwdyno.plan import Plan

# What may be said otherwise than the specification has it: where, how it is reached, and how much of it.
MAY_SAY = {"size", "ioengine", "direct", "offset"}


def run(names: list[str], args: argparse.Namespace) -> int:
    """Perform the test that is named."""
    from hwdyno.cli import progress
    from hwdyno.experiments.storage_snia import TESTS
    from hwdyno.runner import snia
    from hwdyno.store import Store, new_id

    if len(names) != 1 or names[0] not in TESTS:
        raise UserError(f"storage snia takes one test: {', '.join(TESTS)}")
    test, host = TESTS[names[0]], common.this_machine()
    plan = plan_of(test, args, host)
    if args.dry_run:
        return listed(test, plan)
    with progress.shown(args.quiet) as shown:
        done = snia.run(plan, test, host, Store(args.store), new_id(), shown, explain=common.explained)
    common.show(done, args)
    return common.status(done, args.fail_under)


def plan_of(test: SniaTest, args: argparse.Namespace, host: Host) -> Plan:
    """The test's plan; its workloads are SNIA's own, whatever the options."""
    from hwdyno import plan as plans
    from hwdyno.units import parse_duration
    from hwdyno.workspace import check_place

    given = given_axes(args)
    if extra := sorted(set(given) - MAY_SAY):
        raise UserError(f"SNIA's tests say {', '.join(extra)} themselves; leave --{extra[0].replace('_', '-')} out")
    profile = args.profile or "quick"
    if "size" not in given and profile != "quick" and args.path is not None and args.path.is_block_device():
        place = check_place(args.path, writes=True, destroy=args.destroy, serial=args.serial)
        given["size"] = str(place.device_bytes)  # The specification is about the whole device.
    plan = plans.build(
        [(test.experiment, given)],
        host,
        profile=profile,
        path=args.path,
        ceilings=args.ceiling,
        seed=args.seed,
        budget_s=parse_duration(args.budget) if args.budget else plans.budget_of(profile, False),
        command=common.command_line("hwdyno storage"),
    )
    return replace(plan, destroy=args.destroy, serial=args.serial)


def listed(test: SniaTest, plan: Plan) -> int:
    """Say what would run; measures and writes nothing."""
    from hwdyno.experiments.storage_snia import CELL_S, PRECONDITION_TIMES, ROUNDS, matches
    from hwdyno.runner.snia import LONGEST_S
    from hwdyno.workspace import check_place

    check_place(plan.path, writes=True, destroy=plan.destroy, serial=plan.serial)
    every = sum(matches(point, test.each_round or {}) for point in plan.experiments[0].points)
    longest_s = LONGEST_S.get(plan.profile.name, CELL_S)
    sys.stdout.write(
        f"preconditioning: {format_bytes(PRECONDITION_TIMES * plan.data_bytes)} in sequence, in blocks of 128 KiB\n"
        f"rounds: 5 to {ROUNDS} of {every} workloads, at most {format_duration(longest_s)} each\n"
        f"then once: {len(plan.experiments[0].points) - every} workloads\n"
        f"time: {format_duration(plan.budget_s)} at most\n"
        if plan.budget_s is not None
        else f"rounds: 5 to {ROUNDS} of {every} workloads of {format_duration(longest_s)} each, until steady\n"
    )
    return 0
