"""``hwdyno schema``: print the JSON Schema of the Run document."""

from __future__ import annotations

import argparse
import json
import sys

from hwdyno.cli.help import Help

HELP = Help(examples=("hwdyno schema", "hwdyno schema > run.schema.json", "hwdyno schema | head"))


def add(parser: argparse.ArgumentParser) -> None:
    """It has no options."""


def run(args: argparse.Namespace) -> int:
    """Print the schema on stdout."""
    sys.stdout.write(text())
    return 0


def text() -> str:
    """The JSON Schema of the Run document, as it is published."""
    from hwdyno.system.store import json_schema

    return json.dumps(json_schema(), indent=2, ensure_ascii=False) + "\n"
