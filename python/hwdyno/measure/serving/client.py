"""Sends requests to a server and notes when each piece of an answer comes: one thread, one loop, no reading of JSON.

One thread because of the interpreter's lock: a second one would wait up to 5 ms for it. Over plain TCP the engine
receives an answer up to its last piece, and the kernel says when each came, so that a client that has no processor
for a moment is in no time.
"""

from __future__ import annotations

import contextlib
import gc
import select
import socket
import ssl
import time
from collections import deque
from collections.abc import Callable

from hwdyno.measure import engine
from hwdyno.measure.serving.answers import LONGEST_WAIT_S
from hwdyno.measure.serving.client_result import ClientResult, ClientSettings, Sent
from hwdyno.measure.serving.connection import Connection, name_failure
from hwdyno.measure.serving.prompts import Prompt
from hwdyno.measure.serving.request_bodies import RequestBodies
from hwdyno.measure.serving.schedule import Load
from hwdyno.measure.serving.server_address import ServerAddress
from hwdyno.measure.serving.wire import MAX_BYTES, WireError
from hwdyno.system import signals

LOOK_S = 1.0
"""How often the loop looks whether a signal asks it to end, and what took too long; a look costs up to 0.1 ms."""
LOOKS = 50
"""And this many times in the time that one answer has, at least."""
SOON_S = 0.01
"""Pause after a wait that ended early, as a signal's handler does it: its request is known a moment later."""
STAMPS = 35
"""Linux's ``SO_TIMESTAMPNS``, by which the kernel stamps what it receives; elsewhere the client's moments are used."""
PIECE = 16 << 10
"""Bytes read at once over TLS."""
PAUSE_S = 0.1
"""A user's wait after a request that failed, where the server asks for none."""
GIVE_UP = 20
"""Failures one after the other, without any answer, that end a reading."""
MAX_KEPT = 512 << 20
"""Bytes of answers that are kept until the end; a reading that reaches this ends."""
NOT_SENT = "not sent"
"""The failure of a request for which no connection became free."""
_READ, _WRITE = select.EPOLLIN, select.EPOLLOUT


def drive(
    server: ServerAddress, load: Load, settings: ClientSettings, encode_request: Callable[[Prompt], bytes]
) -> ClientResult:
    """Send the load for as long as the settings say and wait for the answers.

    ``encode_request`` makes the bytes of a request. Raises ``OSError`` where no connection can be made at all.
    """
    was_on = gc.isenabled()
    gc.disable()
    try:
        return _ClientLoop(server, load, settings, encode_request).run()
    finally:
        if was_on:
            gc.enable()


class _ClientLoop:
    """The state of one reading."""

    def __init__(
        self, server: ServerAddress, load: Load, settings: ClientSettings, encode_request: Callable[[Prompt], bytes]
    ) -> None:
        self.server, self.load, self.settings = server, load, settings
        self.poll = select.epoll()
        self.links: dict[int, Connection] = {}
        self.idle: list[Connection] = []
        self.sent: list[Sent] = []
        self.queue: deque[tuple[Sent, bytes]] = deque()
        """Requests of an open loop that are due and have no connection."""
        self.wakes: list[int] = []
        """When the users of a closed loop send again, in any order."""
        self.bodies = RequestBodies(load, settings, encode_request)
        self.most = self.waited = self.kept = 0
        self.failed_in_a_row = 0
        self.is_over = self.interrupted = self.gave_up = False
        self.is_changed = True
        """Whether something may be to begin, or may have been the last."""
        self.receiver = engine.Receiver(self.poll.fileno())

    def run(self) -> ClientResult:
        """Send and wait."""
        self.bodies.fill()
        user, system = _cpu_s()
        self.started = time.perf_counter_ns()
        self.end = self.started + round(self.settings.runtime_s * 1e9)
        if not self.load.is_open:
            self.wakes = [self.started] * self.load.users
        with contextlib.closing(self.poll):
            try:
                self._loop()
            finally:
                for link in (*self.links.values(), *self.idle):
                    self._keep(link)
                    link.sock.close()
        after_user, after_system = _cpu_s()
        return ClientResult(
            sent=self.sent,
            started_ns=self.started,
            cpu_user_s=after_user - user,
            cpu_system_s=after_system - system,
            connections=self.most,
            waited_for_connection=self.waited,
            interrupted=self.interrupted,
            gave_up=self.gave_up,
            late_bodies=self.bodies.late,
            kept_too_much=self.kept > MAX_KEPT,
        )

    def _loop(self) -> None:
        clock, look_ns, next_look = time.perf_counter_ns, round(min(LOOK_S, self.settings.timeout_s / LOOKS) * 1e9), 0
        next_ns: int | None = 0
        while True:
            now = clock()
            if now >= next_look:
                next_look = now + look_ns
                if signals.is_end_requested():
                    self.is_over = self.interrupted = True
                self._expire(now)
                next_ns = 0
            if self.is_changed or (next_ns is not None and next_ns <= now):
                self.is_changed = False
                next_ns = self._begin_due(now)
                if self.is_over and not self.queue and (self.interrupted or not self.links):
                    return
                if next_ns is None and not self.links and not self.queue:
                    return
            fine = next_ns is not None and next_ns <= next_look
            until = next_ns if next_ns is not None and fine else next_look
            if not self._receive(until, fine=fine) and clock() < until:
                next_look = min(next_look, clock() + round(SOON_S * 1e9))

    # --- what is begun

    def _begin_due(self, now: int) -> int | None:
        """Begin every request whose time has come; when the next one is due, none if there is no other."""
        if self.kept > MAX_KEPT or self.gave_up:
            self.is_over = True
        if self.load.is_open:
            return self._begin_arrivals(now)
        return self._begin_users(now)

    def _begin_users(self, now: int) -> int | None:
        enough = len(self.sent) >= self.settings.min_requests
        if self.is_over or (now >= self.end and enough):
            self.is_over, self.wakes = True, []
            return None
        later = []
        for due in self.wakes:
            if due <= now:
                prompt, body = self.bodies.next()
                self._send(self._make_sent(due, prompt), body)
            else:
                later.append(due)
        self.wakes = later
        return min(later, default=None)

    def _begin_arrivals(self, now: int) -> int | None:
        while self.queue and self._has_room():
            self._send(*self.queue.popleft())
        if self.is_over:
            self.queue.clear()
            return None
        while (due := self.bodies.first) is not None:
            due_ns = self.started + round(due.due_s * 1e9)
            if due_ns > now:
                return due_ns
            prompt, body = self.bodies.next()
            sent = self._make_sent(due_ns, prompt)
            if self._has_room() and not self.queue:
                self._send(sent, body)
            else:
                self.waited += 1
                self.queue.append((sent, body))
        self.is_over = not self.queue
        return None

    def _has_room(self) -> bool:
        return bool(self.idle) or len(self.links) < self.settings.connections

    def _make_sent(self, due_ns: int, prompt: Prompt) -> Sent:
        """A request that is due now."""
        return Sent(prompt, due_ns, in_flight=len(self.links) + len(self.queue) + 1)

    def _send(self, sent: Sent, body: bytes) -> None:
        self.sent.append(sent)
        sent.sent_ns = time.perf_counter_ns()
        deadline = sent.sent_ns + round(self.settings.timeout_s * 1e9)
        if self.idle:
            link = self.idle.pop()
            link.sent, link.out, link.deadline_ns = sent, memoryview(body), deadline
            self.links[link.sock.fileno()] = link
            self._write(link)
            return
        self._connect(sent, body, deadline)

    def _connect(self, sent: Sent, body: bytes, deadline: int) -> None:
        server = self.server
        sock = socket.socket(server.family, socket.SOCK_STREAM)
        sock.setblocking(False)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        with contextlib.suppress(OSError):
            sock.setsockopt(socket.SOL_SOCKET, STAMPS, 1)
        link = Connection(sock, sent, memoryview(body), deadline)
        self.links[sock.fileno()] = link
        self.most = max(self.most, len(self.links) + len(self.idle))
        self.poll.register(sock.fileno(), _WRITE)
        link.interest = _WRITE
        try:
            sock.connect(server.address)
        except BlockingIOError:
            return
        except OSError as error:
            self._finish(link, name_failure(error))
            return
        self._finish_connecting(link)

    def _finish_connecting(self, link: Connection) -> None:
        link.is_connecting = False
        if self.server.tls is not None:
            fd = link.sock.fileno()
            self.poll.unregister(fd)
            link.sock = self.server.tls.wrap_socket(
                link.sock, server_hostname=self.server.host, do_handshake_on_connect=False
            )
            self.poll.register(link.sock.fileno(), _WRITE)
            link.interest = _WRITE
        self._write(link)

    # --- what comes and goes

    def _receive(self, until_ns: int, *, fine: bool) -> bool:
        """Wait for sockets and serve them; whether there were any."""
        found = self.receiver.wait(until_ns, fine)
        if not found:
            self.bodies.fill_one()
        for fd in found:
            if (link := self.links.get(fd)) is None:
                self._idle_spoke(fd)
            elif link.is_connecting:
                self._try_connected(link)
            elif link.out:
                self._write(link)
            else:
                self._read(link)
        return bool(found)

    def _try_connected(self, link: Connection) -> None:
        error = link.sock.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
        if error:
            self._finish(link, name_failure(OSError(error, "")))
        else:
            self._finish_connecting(link)

    def _write(self, link: Connection) -> None:
        try:
            while link.out:
                link.out = link.out[link.sock.send(link.out) :]
        except (BlockingIOError, ssl.SSLWantWriteError):
            self._watch(link, _WRITE)
            return
        except ssl.SSLWantReadError:
            self._watch(link, _READ)
            return
        except OSError as error:
            if isinstance(error, ConnectionError) and not link.is_new:
                self._again(link)
            else:
                self._finish(link, name_failure(error))
            return
        self._watch(link, _READ)
        if self.server.tls is None and link.sent is not None:
            self._follow(link, link.sent.sent_ns)

    def _watch(self, link: Connection, interest: int) -> None:
        if link.interest != interest:
            self.poll.modify(link.sock.fileno(), interest)
            link.interest = interest

    def _follow(self, link: Connection, last_ns: int) -> None:
        """Let the engine receive what comes now, until that needs a look; the last piece came at ``last_ns``."""
        assert link.sent is not None
        size, link.is_followed = link.sent.exchange.size, True
        self.receiver.follow(link.sock.fileno(), last_ns, max(0, MAX_BYTES - size), size > 0)

    def _keep(self, link: Connection) -> None:
        """Keep what the engine has received of an answer that is over."""
        if link.is_followed and link.sent is not None:
            link.is_followed = False
            data, sizes, times_ns, _ = self.receiver.take(link.sock.fileno())
            with contextlib.suppress(WireError):
                link.sent.exchange.add(data, sizes, times_ns)

    def _read(self, link: Connection) -> None:
        """Take what the engine has received of an answer and look how it goes on."""
        if self.server.tls is not None:
            self._read_tls(link)
            return
        link.is_followed = False
        data, sizes, times_ns, errno = self.receiver.take(link.sock.fileno())
        if sizes and not self._took(link, data, sizes, times_ns):
            return
        if errno:
            self._fail_link(link, OSError(errno, ""))
        else:
            self._follow(link, times_ns[-1])

    def _read_tls(self, link: Connection) -> None:
        try:
            while link.sent is not None:
                data = link.sock.recv(PIECE)
                goes_on = self._took(link, data, [len(data)], [time.perf_counter_ns()])
                # TLS keeps what it has decrypted where no poll sees it.
                if not goes_on or not link.sock.pending():  # type: ignore[attr-defined]
                    return
        except (BlockingIOError, ssl.SSLWantReadError):
            return
        except ssl.SSLWantWriteError:
            self._watch(link, _READ | _WRITE)
        except OSError as error:
            self._fail_link(link, error)

    def _fail_link(self, link: Connection, error: OSError) -> None:
        sent = link.sent
        if sent is not None:
            self._finish(link, "cut" if sent.exchange.size else name_failure(error))

    def _took(self, link: Connection, data: bytes, sizes: list[int], times_ns: list[int]) -> bool:
        """Pieces of an answer, the last of which is empty at the connection's end; whether more is to come."""
        sent = link.sent
        assert sent is not None
        is_end = not sizes[-1]
        try:
            is_complete = sent.exchange.add(data, sizes[: len(sizes) - is_end], times_ns[: len(sizes) - is_end])
        except WireError as error:
            self._finish(link, str(error))
            return False
        if is_complete:
            self._finish(link, "")
        elif is_end:
            self._ended_by_server(link)
        return not is_complete and not is_end

    def _ended_by_server(self, link: Connection) -> None:
        sent = link.sent
        assert sent is not None
        head = sent.exchange.head
        if not sent.exchange.size and not link.is_new:
            self._again(link)
            return
        unframed = head is not None and not head.is_chunked and head.body_bytes is None
        self._finish(link, "" if unframed else "cut")

    def _again(self, link: Connection) -> None:
        """Send a request over a new connection: the server had closed the idle one meanwhile (RFC 9112, 9.3.1)."""
        sent = link.sent
        assert sent is not None
        self._drop(link)
        self._connect(sent, self.bodies.encode_request(sent.prompt), link.deadline_ns)

    def _idle_spoke(self, fd: int) -> None:
        """A connection without a request that became readable: the server closed it."""
        for link in self.idle:
            if link.sock.fileno() == fd:
                self.idle.remove(link)
                self._drop(link)
                return

    def _drop(self, link: Connection) -> None:
        fd = link.sock.fileno()
        self.links.pop(fd, None)
        with contextlib.suppress(OSError, ValueError):
            self.poll.unregister(fd)
        link.sock.close()

    def _finish(self, link: Connection, failure: str) -> None:
        """A request is over; its connection is used again where the server keeps it."""
        sent, now = link.sent, time.perf_counter_ns()
        assert sent is not None
        self._keep(link)
        sent.end_ns, sent.failure = now, failure
        self.kept += sent.exchange.size
        self.is_changed = True
        head = sent.exchange.head
        is_kept = not failure and head is not None and not head.closes
        if is_kept:
            del self.links[link.sock.fileno()]
            link.sent, link.is_new = None, False
            self.idle.append(link)
        else:
            self._drop(link)
        is_bad = bool(failure) or head is None or not head.is_stream
        self.failed_in_a_row = self.failed_in_a_row + 1 if is_bad else 0
        if self.failed_in_a_row >= GIVE_UP and self.failed_in_a_row == self._count_ended():
            self.gave_up = True
        if not self.load.is_open and not self.is_over:
            self.wakes.append(now + round(self._pause_s(sent, is_bad) * 1e9))

    def _count_ended(self) -> int:
        return sum(request.end_ns > 0 for request in self.sent)

    def _pause_s(self, sent: Sent, is_bad: bool) -> float:
        """How long a user waits: to think, or longer after a failure, as the server asks."""
        pause = self.load.think_s
        if not is_bad:
            return pause
        head = sent.exchange.head
        with contextlib.suppress(ValueError):
            retry_s = float(head.headers.get("retry-after", "")) if head is not None else 0.0
            if retry_s > 0:
                return max(pause, min(LONGEST_WAIT_S, retry_s))
        return max(pause, PAUSE_S)

    def _expire(self, now: int) -> None:
        """End what takes too long; what no connection was free for until then was never sent."""
        for link in [link for link in self.links.values() if link.deadline_ns <= now]:
            self._finish(link, "timeout")
        if now >= self.end + round(self.settings.timeout_s * 1e9):
            for sent, _ in self.queue:
                sent.failure = NOT_SENT
                self.sent.append(sent)
            self.queue.clear()
            self.is_over = True


def _cpu_s() -> tuple[float, float]:
    """CPU time of this thread, user and system."""
    import resource

    used = resource.getrusage(resource.RUSAGE_THREAD)
    return used.ru_utime, used.ru_stime
