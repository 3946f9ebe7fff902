"""Runs ``hwdyno``, as its script and as ``python -m hwdyno``."""

import os
import sys

from hwdyno.system import first_signals, standard_streams


def main() -> int:
    """Own signals and standard streams before anything else is imported, and run the command line; gives its status."""
    first_signals.keep()
    standard_streams.take_over()
    try:
        from hwdyno._engine import Guard
        from hwdyno.system import memory_limits, signals

        signals.take_over("hwdyno", Guard)
        memory_limits.refuse_large_libraries()
        from hwdyno.cli.main import main as run_command_line
    except (ImportError, MemoryError, OSError, RuntimeError) as error:
        # As where no thread can be started, or memory ends.
        if os.environ.get("HWDYNO_TRACEBACK"):
            raise
        says = f"{type(error).__name__}: {' '.join(str(error).split())}"
        limits = "see the limits of memory (`ulimit -v`) and threads (`ulimit -u`, pids.max of the control group)"
        sys.stderr.write(f"hwdyno cannot start: {says}; {limits}\n")
        return 2
    try:
        return run_command_line()
    except MemoryError:  # Even its explanation needs memory.
        os.write(2, b"hwdyno: out of memory; see `ulimit -v`\n")
        return 2


if __name__ == "__main__":
    sys.exit(main())
