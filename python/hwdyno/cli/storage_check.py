"""``hwdyno storage check JOURNAL``: check that every write acknowledged before a crash is in the file."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Mapping
from typing import Any

from hwdyno import session
from hwdyno.cli.statuses import DEGRADED, INTERRUPTED, OK
from hwdyno.model.words import UserError

KERNEL = "storage_check"


def add_options(parser: argparse.ArgumentParser) -> None:
    """Declare the options that only the check has."""
    parser.add_argument(
        "--after-power-cut",
        action="store_true",
        help="with `check JOURNAL [FILE]`: check only what a sync had covered, not all acknowledged writes",
    )


def run(words: list[str], args: argparse.Namespace) -> int:
    """Check the file of a journal; nothing is written."""
    if not 1 <= len(words) <= 2:
        raise UserError("storage check takes the journal, and the file if it has moved")
    parameters = {"journal": words[0], "path": words[1] if words[1:] else ""}
    parameters["after"] = "power_cut" if args.after_power_cut else "kill"
    try:
        reading = session.take_reading(KERNEL, parameters)
    except OSError as error:
        raise UserError(str(error.strerror or error)) from None
    if args.json:
        sys.stdout.write(json.dumps(reading) + "\n")
    elif not args.quiet:
        sys.stdout.write(format_summary(reading))
    return INTERRUPTED if reading["interrupted"] else DEGRADED if reading["faults"] else OK


def format_summary(reading: Mapping[str, Any]) -> str:
    """The check's result as text."""
    details = reading["details"]

    def count(name: str) -> int:
        return int(details[f"journal_{name}_blocks"])

    state = "ended" if details["journal_ended"] else "was cut short"
    past = "read past the page cache" if details["direct_used"] else "read through the page cache"
    lines = [
        f"{details['path']}: {details['verify_checked_blocks']} blocks written by a run that {state}; {past}",
        f"acknowledged: {count('acknowledged')} blocks, {count('covered_by_sync')} of them covered by a sync",
        f"in flight at the end: {count('in_flight')} blocks; {count('in_flight_new')} are new and "
        f"{count('in_flight_torn')} torn, which is allowed",
        *(note["says"] for note in reading["notes"]),
    ]
    lost = [f"LOST: {fault['count']} x {fault['says']}" for fault in reading["faults"]]
    after_sync = count("lost_after_sync")
    if after_sync:
        lost.append(
            f"{after_sync} of them were lost although a sync had covered them: the device or its cache does not "
            "honour a sync"
        )
    elif lost:
        lost.append("no sync had covered any of them")
    if reading["interrupted"]:
        lost.append("interrupted: not every block was read")
    return "\n".join([*lines, *(lost or ["no acknowledged write is lost"])]) + "\n"
