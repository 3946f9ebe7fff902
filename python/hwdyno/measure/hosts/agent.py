"""A host that is measured by a bare engine over pipes: ``hwdyno-engine serve`` here, or behind any command."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
from collections.abc import Sequence

from hwdyno.measure.hosts.host import HostLostError
from hwdyno.measure.hosts.lines import LastWords, write_line
from hwdyno.measure.hosts.speaker import TIMEOUT_S, Speaker
from hwdyno.system import processes, signals

CLOSE_S = 6.0
"""The agent gives a run five seconds to end."""


class Agent(Speaker):
    """A ``Member`` behind a command that starts an agent, such as ``ssh node7 hwdyno-engine serve``."""

    def __init__(self, command: Sequence[str], timeout_s: float = TIMEOUT_S) -> None:
        super().__init__(timeout_s)
        self.command = tuple(command)
        try:
            self._process = subprocess.Popen(
                self.command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                start_new_session=True,  # The terminal's Ctrl-C is for the site, which then stops all hosts alike.
            )
        except OSError as error:
            raise HostLostError(f"the agent {self.command[0]} cannot be started: {error.strerror}") from None
        signals.spare(self._process.pid)
        assert self._process.stdin is not None and self._process.stderr is not None
        self._last_words = LastWords(os.dup(self._process.stderr.fileno()))
        self._process.stderr.close()
        os.set_blocking(self._process.stdin.fileno(), False)
        self._greet()

    @property
    def display_name(self) -> str:
        """Its command."""
        return " ".join(self.command)

    @property
    def descriptor(self) -> int:
        """Its standard output."""
        assert self._process.stdout is not None
        return self._process.stdout.fileno()

    def _write(self, line: bytes) -> None:
        assert self._process.stdin is not None
        write_line(self._process.stdin.fileno(), line, self._timeout_s)

    def _lost_error(self) -> HostLostError:
        """Why the pipe has ended."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(1.0)
        status = self._process.poll()
        last = self._last_words.last_line()
        how = "closed its pipe" if status is None else f"was killed by signal {-status}" if status < 0 else "ended"
        return HostLostError(f"its agent {how}" + (f": {last}" if last else ""))

    def abandon(self) -> None:
        """Kill the agent, and what it has started."""
        if self._process.returncode is None:
            for pid in processes.family(self._process.pid):
                with contextlib.suppress(OSError):
                    os.kill(pid, signal.SIGKILL)
        self.close()

    def close(self) -> None:
        """End the agent: it stops its run and removes its files when its input ends; one that hangs is killed."""
        with contextlib.suppress(OSError):
            if self._process.stdin is not None:
                self._process.stdin.close()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(CLOSE_S)
        # Its group: a shell between may be gone, and what it started may not.
        with contextlib.suppress(OSError):
            os.killpg(self._process.pid, signal.SIGKILL)
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(1.0)
        if self._process.stdout is not None:
            self._process.stdout.close()
        self._last_words.close()
