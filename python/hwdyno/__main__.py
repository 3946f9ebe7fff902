"""Runs ``hwdyno``, as its script and as ``python -m hwdyno``."""

import sys

from hwdyno.system import first_signals


def main() -> int:
    """Own the signals before anything else is imported, and run the command line; gives the exit status."""
    first_signals.keep()
    from hwdyno._engine import Guard
    from hwdyno.system import signals

    signals.take_over("hwdyno", Guard)
    from hwdyno.cli.main import main as run_command_line

    return run_command_line()


if __name__ == "__main__":
    sys.exit(main())
