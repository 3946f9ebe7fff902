"""Owns the process's signals: the first ends the work early and keeps it, the next leaves within a second.

No handler raises, so no import, clean-up or write is ever cut. A native thread (the engine's ``guard.rs``) reads
each signal from a pipe, no matter what the interpreter does, and a Python thread acts on it:

- While something is kept (``keeping``), the first signal is a request: what runs ends early (``halting``), and the
  runner stops at its next reading (``check``).
- Any other signal leaves: what runs is stopped, what was measured is kept, what was made is removed (``Stage``), and
  the process ends. The main thread stops meanwhile, but for what must not be divided (``delay_exit``). A request that
  what runs does not follow in time (``HALT_S``) counts as such a signal.

Only a program that calls ``take_over`` has this; elsewhere Python's own handlers stay, and Ctrl-C raises.
"""

from __future__ import annotations

import atexit
import contextlib
import enum
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from types import FrameType
from typing import Protocol

from hwdyno.system import first_signals
from hwdyno.system.first_signals import SIGNALS, STATUS_OF_SIGNAL
from hwdyno.system.processes import family, mark_children, read_stat

LIMIT_S = 0.7
"""Longest time between a signal that leaves and the end of the process, of the time that the machine gives to it."""
CLEAN_UP_S = 0.5
"""Time for the clean-up within that."""
STEP_S = 0.02
"""How often what waits while the process leaves looks at the time that was given."""
HALT_S = 5.0
"""Longest time between a request and the end of what runs, likewise; then the process leaves with what it has."""

STATUS_OF_ABORT = 2
"""That of an error: a library aborted or crashed, as where memory ends (``sys/abort.rs``)."""
_ABORTS = (signal.SIGABRT, signal.SIGSEGV)

Action = Callable[[], object]


class Stage(enum.IntEnum):
    """The order of the clean-up of a process that leaves, once what runs is stopped."""

    KEEP = 0
    """Keep what was measured."""
    REMOVE = 1
    """Remove what was made."""


class Guard(Protocol):
    """The native watch over the signals; see ``hwdyno._engine.Guard``."""

    def fileno(self) -> int:
        """Where handlers write the number of their signal as one byte."""
        ...

    def keep(self, is_keeping: bool) -> None:
        """Whether the first signal is a request."""
        ...

    def run(self, is_running: bool) -> None:
        """Whether something runs that a request ends."""
        ...

    def next(self) -> tuple[int, bool] | None:
        """Wait for the next signal: its number, and whether the process ends now; none after the end."""
        ...

    def spent_s(self) -> float:
        """Time since a signal that leaves in which no thread of this process waited for a processor; 0 before."""
        ...

    def end(self) -> None:
        """Give no more signals, because the process ends by itself."""
        ...


class _Owner:
    """The signals of this process and what to do about them."""

    def __init__(self) -> None:
        self.name = ""
        self.guard: Guard | None = None
        self.main = 0
        """The main thread, once the signals are owned."""
        self.number = 0
        """The first signal; 0 before."""
        self.requested = False
        self.leaving = False
        self.parked = False
        self.keeping = 0
        self.running = 0
        self.counting = threading.Lock()
        self.undivided = 0
        """How many sections the main thread is in that are not to be divided."""
        self.halts: list[Action] = []
        self.clean_ups: list[tuple[Stage, Action]] = []
        self.spared: set[int] = set()

    def watch(self) -> None:
        """Act on each signal; the body of a separate thread."""
        guard = self.guard
        while guard is not None and (received := guard.next()) is not None:
            number, leaves = received
            self.number = self.number or number
            if leaves:
                self.leave()
            self.requested = True
            for halt in list(self.halts):
                _quietly(halt)

    def leave(self) -> None:
        """Clean up within the limit, and end the process."""
        self.leaving = True
        # Its handler parks the main thread, and a system call in which it waits is cut short.
        with contextlib.suppress(OSError, ValueError):
            signal.pthread_kill(self.main, signal.SIGTERM if self.number in _ABORTS else self.number)
        for halt in list(self.halts):
            _quietly(halt)
        self.end_children()
        # What runs ends now that it is halted; until then it may still make what is to be removed.
        self.settle(CLEAN_UP_S / 2, lambda: not self.parked)
        for stage in Stage:
            for of_stage, action in reversed(list(self.clean_ups)):
                if of_stage == stage:
                    _quietly(action)
        self.settle(CLEAN_UP_S, lambda: self.undivided > 0)
        self.end_children()
        if self.number in _ABORTS:  # The guard has printed why.
            os._exit(STATUS_OF_ABORT)
        with contextlib.suppress(OSError):
            os.write(2, f"{self.name}: interrupted\n".encode())
        os._exit(STATUS_OF_SIGNAL + self.number)

    def spent_s(self) -> float:
        """The time that was given to this process since it leaves."""
        return self.guard.spent_s() if self.guard is not None else 0.0

    def settle(self, until_s: float, is_busy: Callable[[], bool]) -> None:
        """Wait while the main thread is busy, until this much time was given at most."""
        while is_busy() and self.spent_s() < until_s:
            time.sleep(0.005)

    def end_children(self) -> None:
        """Kill every descendant with its process group, but for those that end by themselves."""
        spared = {process for pid in self.spared for process in family(pid)}
        ours = os.getpgid(0)
        for pid in family(os.getpid())[1:]:
            if pid not in spared and (fields := read_stat(pid)):
                group = int(fields[2])
                with contextlib.suppress(OSError):
                    os.kill(pid, signal.SIGKILL)
                if group != ours:
                    with contextlib.suppress(OSError):
                        os.killpg(group, signal.SIGKILL)

    def handle(self, number: int, frame: FrameType | None) -> None:
        """The handler: the guard has read the signal; the main thread only stops once the process leaves."""
        self.park()

    def park(self) -> None:
        """Wait forever if the process leaves and nothing undivided is under way."""
        if self.leaving and not self.undivided and not self.parked:
            self.parked = True
            while True:
                time.sleep(LIMIT_S)


_owner = _Owner()


class EndRequest:
    """A request to end one caller's work early, as a signal requests it of the whole process."""

    def __init__(self) -> None:
        self.is_made = False
        self.halts: list[Action] = []

    def make(self) -> None:
        """End what runs now, and what begins later; any thread may call it, more than once."""
        self.is_made = True
        for halt in list(self.halts):
            _quietly(halt)


_request: ContextVar[EndRequest | None] = ContextVar("request", default=None)


@contextlib.contextmanager
def ended_by(request: EndRequest) -> Iterator[None]:
    """Work of this thread inside ends early once the request is made."""
    before = _request.set(request)
    try:
        yield
    finally:
        _request.reset(before)


def take_over(name: str, guard: Callable[[float, float], Guard]) -> None:
    """Take over the signals of this process, which then ends as this module says; ``name`` leads its last message.

    A signal that was ignored stays so (``nohup``, a shell's background job). Only the main thread may call it.
    """
    watched = guard(LIMIT_S, HALT_S)
    _owner.name, _owner.guard, _owner.main = name, watched, threading.get_ident()
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, SIGNALS)
    signal.set_wakeup_fd(watched.fileno(), warn_on_full_buffer=False)
    for number in SIGNALS:
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, _owner.handle)
    signal.pthread_sigmask(signal.SIG_SETMASK, mask)
    os.write(watched.fileno(), bytes(first_signals.received))
    # Last: to start a thread takes a while, and the guard keeps the signals of that time.
    watch = threading.Thread(target=_owner.watch, name="signals", daemon=True)
    watch.start()

    def end() -> None:
        # A thread that still waits when the interpreter ends would be torn out of native code, which aborts.
        watched.end()
        watch.join()
        # All is done, and the interpreter would let a signal end it from here on.
        for number in SIGNALS:
            signal.signal(number, signal.SIG_IGN)

    atexit.register(end)
    mark_children()


def is_end_requested() -> bool:
    """Whether a signal, or the request of this thread's caller, has requested an early end."""
    request = _request.get()
    return _owner.requested or (request is not None and request.is_made)


def check() -> None:
    """Raise ``KeyboardInterrupt`` if an early end is requested."""
    if is_end_requested():
        raise KeyboardInterrupt


def status(normal: int) -> int:
    """The exit status: that of the signal that ended the work early, or else ``normal``."""
    return STATUS_OF_SIGNAL + _owner.number if _owner.requested else normal


@contextlib.contextmanager
def keeping() -> Iterator[None]:
    """Work inside keeps what it has when it ends early, so the first signal is a request."""
    _keep(1)
    try:
        yield
    finally:
        _keep(-1)


def _keep(more: int) -> None:
    _owner.keeping += more
    if _owner.guard is not None:
        _owner.guard.keep(_owner.keeping > 0)


@contextlib.contextmanager
def halting(halt: Action) -> Iterator[None]:
    """Call ``halt`` in another thread when an early end is requested, and at once if it was; maybe twice."""
    request = _request.get()
    lists = [_owner.halts] if request is None else [_owner.halts, request.halts]
    for halts in lists:
        halts.append(halt)
    try:
        with running():
            if is_end_requested():
                halt()
            yield
    finally:
        for halts in lists:
            halts.remove(halt)


@contextlib.contextmanager
def running() -> Iterator[None]:
    """Work that ends within ``HALT_S`` after a request; where it does not, the process leaves."""
    _run(1)
    try:
        yield
    finally:
        _run(-1)


def _run(more: int) -> None:
    with _owner.counting:
        _owner.running += more
        if _owner.guard is not None:
            _owner.guard.run(_owner.running > 0)


def register(stage: Stage, action: Action) -> None:
    """Call ``action`` in another thread if the process leaves; in a stage, the last registered comes first."""
    _owner.clean_ups.append((stage, action))


def unregister(action: Action) -> None:
    """Forget an action that was registered, if it was."""
    _owner.clean_ups = [clean_up for clean_up in _owner.clean_ups if clean_up[1] != action]


@contextlib.contextmanager
def at_leave(stage: Stage, action: Action) -> Iterator[None]:
    """Call ``action`` in another thread if the process leaves inside of this context."""
    register(stage, action)
    try:
        yield
    finally:
        unregister(action)


@contextlib.contextmanager
def delay_exit() -> Iterator[None]:
    """A short section of the main thread, such as one file's write, that a process which leaves waits for."""
    if threading.get_ident() != _owner.main:
        yield
        return
    _owner.undivided += 1
    try:
        yield
    finally:
        _owner.undivided -= 1
        _owner.park()


def patiently(wait: Callable[[float], bool], limit_s: float) -> bool:
    """Call ``wait`` with short times until it gives true, while a process that leaves is given ``limit_s`` at most.

    Where the machine lets the process wait for a processor, that time does not count.
    """
    until = _owner.spent_s() + limit_s
    while not (is_over := wait(STEP_S)) and _owner.spent_s() < until:
        pass
    return is_over


def spare(pid: int) -> None:
    """Do not kill this child when the process leaves: it cleans up and ends by itself once its input ends."""
    _owner.spared.add(pid)


def end_children() -> None:
    """Kill every descendant of this process, but for those that were spared."""
    _owner.end_children()


def _quietly(action: Action) -> None:
    """One clean-up that fails must not keep the others from theirs."""
    with contextlib.suppress(Exception):
        action()
