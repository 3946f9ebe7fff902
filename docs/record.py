"""Records a terminal session: asciinema's .cast of real commands, and from it a small animated SVG for the README.

``make session`` runs it. It takes the output of a pseudo-terminal with its times (asciicast v2,
docs.asciinema.org/manual/asciicast/v2), lets a terminal emulator draw it, and keeps a few frames. Every frame is
text, without scripts; the last one shows where animations are off.
"""

from __future__ import annotations

import argparse
import fcntl
import json
import os
import pty
import select
import shutil
import signal
import struct
import sys
import tempfile
import termios
import time
from bisect import bisect_right
from html import escape
from itertools import pairwise
from pathlib import Path
from typing import Any

import pyte

HERE = Path(__file__).parent
COLUMNS, ROWS = 100, 40
COMMANDS = ("hwdyno run --only storage.grid,memory.grid,memory.latency --budget 45s --path . --no-page",)
"""Few enough points that all of them fit the budget on a machine of four processors that is busy."""
PROMPT = "$ "
TYPING_S, PAUSE_S = 0.03, 1.0
"""Between letters of a command, and after its output: for readers, not measured."""
MOST_FRAMES = 14
LONGEST_S = 2.0
"""A frame is shown at most this long, so that nobody waits for a measurement."""
LAST_S = 6.0
MOST_BYTES = 200_000
LETTER, LINE, SIZE, PAD = 7.83, 17, 13, 12
PAPER, INK = "#14171b", "#e8eaed"
COLOURS = {
    **{"black": "#4d5560", "red": "#ff8f85", "green": "#5fcf9a", "brown": "#e8b656", "blue": "#63b8f0"},
    **{"magenta": "#e79ac6", "cyan": "#7fd4e0", "white": "#e8eaed", "default": INK},
}
Event = tuple[float, str]


def recorded(command: str, folder: Path) -> list[Event]:
    """What a command prints on a terminal, with the seconds since its start."""
    pid, terminal = pty.fork()
    if pid == 0:
        os.chdir(folder)
        environment = {**os.environ, "TERM": "xterm-256color", "COLUMNS": str(COLUMNS), "LINES": str(ROWS)}
        os.execvpe("sh", ["sh", "-c", command], {**environment, "HWDYNO_HOME": str(folder / "home")})
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", ROWS, COLUMNS, 0, 0))
    began, events, pending = time.monotonic(), [], b""
    try:
        while True:
            select.select([terminal], [], [])
            try:
                part = os.read(terminal, 65536)
            except OSError:  # The other end is closed.
                break
            if not part:
                break
            pending += part
            text = pending.decode("utf-8", "ignore")
            pending = pending[len(text.encode()) :]
            events.append((time.monotonic() - began, text))
    finally:
        os.close(terminal)
        _, status = os.waitpid(pid, 0)
    if os.waitstatus_to_exitcode(status) not in {0, 3}:  # 3: degraded points, which a busy machine has.
        sys.exit(f"{command}: status {os.waitstatus_to_exitcode(status)}\n" + "".join(text for _, text in events))
    return events


def session(commands: tuple[str, ...]) -> list[Event]:
    """All commands one after the other, as they would be typed."""
    events: list[Event] = []
    now = 0.0
    with tempfile.TemporaryDirectory(prefix="hwdyno-session-") as folder:
        for command in commands:
            events.append((now, PROMPT))
            for letter in command:
                now += TYPING_S
                events.append((now, letter))
            now += 10 * TYPING_S
            events.append((now, "\r\n"))
            events += [(now + at, text) for at, text in recorded(command, Path(folder))]
            now = events[-1][0] + PAUSE_S
    return events


def write_cast(events: list[Event], path: Path) -> None:
    """An asciicast of version 2: a header, then a line an event."""
    header = {"version": 2, "width": COLUMNS, "height": ROWS, "title": "hwdyno", "env": {"TERM": "xterm-256color"}}
    lines = [json.dumps(header), *(json.dumps([round(at, 3), "o", text]) for at, text in events)]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")


def read_cast(path: Path) -> list[Event]:
    """The events of an asciicast."""
    _, *lines = path.read_text(encoding="utf-8").splitlines()
    return [(float(at), text) for at, kind, text in map(json.loads, lines) if kind == "o"]


def frames(events: list[Event]) -> list[tuple[float, str]]:
    """A few screens with the seconds that each is shown, evenly over the changes."""
    screen = pyte.Screen(COLUMNS, ROWS)
    stream = pyte.Stream(screen)
    seen: list[tuple[float, str]] = []
    for at, text in events:
        stream.feed(text)
        drawn = _screen(screen)
        if not seen or drawn != seen[-1][1]:
            seen.append((at, drawn))
    # Evenly in time, in which no screen stays longer than a reader needs.
    times = [0.0]
    for (earlier, _), (later, _) in pairwise(seen):
        times.append(times[-1] + min(LONGEST_S, later - earlier))
    wanted = (times[-1] * number / MOST_FRAMES for number in range(MOST_FRAMES))
    chosen = sorted({bisect_right(times, at) - 1 for at in wanted} | {len(seen) - 1})
    ends = [*(times[at] for at in chosen[1:]), times[-1] + LAST_S]
    return [(end - times[at], seen[at][1]) for at, end in zip(chosen, ends, strict=True)]


def _screen(screen: Any) -> str:
    """The screen as SVG: a text a line, a span a run of letters of one look."""
    lines = []
    for row in range(ROWS):
        cells = [screen.buffer[row][column] for column in range(COLUMNS)]
        while cells and cells[-1].data == " ":
            cells.pop()
        runs: list[tuple[tuple[str, bool], str]] = []
        for cell in cells:
            look = (COLOURS.get(cell.fg, f"#{cell.fg}" if len(cell.fg) == 6 else INK), cell.bold)
            if runs and runs[-1][0] == look:
                runs[-1] = (look, runs[-1][1] + cell.data)
            else:
                runs.append((look, cell.data))
        spans = "".join(
            f"<tspan{'' if colour == INK else f' fill={chr(34)}{colour}{chr(34)}'}"
            f"{' font-weight=' + chr(34) + '700' + chr(34) if bold else ''}>{escape(text)}</tspan>"
            for (colour, bold), text in runs
        )
        if spans:
            lines.append(f'<text xml:space="preserve" x="{PAD}" y="{PAD + LINE * (row + 1) - 4}">{spans}</text>')
    return "".join(lines)


def svg(shown: list[tuple[float, str]]) -> str:
    """The frames one after the other, by CSS alone; only the last one where motion is unwanted."""
    width, height = round(COLUMNS * LETTER + 2 * PAD), ROWS * LINE + 2 * PAD
    total = sum(seconds for seconds, _ in shown)
    rules, groups, at = [], [], 0.0
    for number, (seconds, drawn) in enumerate(shown):
        first, last = 100 * at / total, 100 * (at + seconds) / total
        after = "" if number == len(shown) - 1 else f"{last:.2f}%{{visibility:hidden}}"
        before = "" if number == 0 else "0%{visibility:hidden}"
        rules.append(f"@keyframes f{number}{{{before}{first:.2f}%{{visibility:visible}}{after}}}")
        rules.append(f"#f{number}{{animation:f{number} {total:.1f}s step-end infinite}}")
        hidden = "" if number == len(shown) - 1 else ' visibility="hidden"'
        groups.append(f'<g id="f{number}"{hidden}>{drawn}</g>')
        at += seconds
    last = f"f{len(shown) - 1}"
    still = f"@media (prefers-reduced-motion: reduce){{g{{animation:none!important}}#{last}{{visibility:visible}}}}"
    font = f"font:{SIZE}px ui-monospace,Menlo,Consolas,'DejaVu Sans Mono',monospace"
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}" '
        f'role="img"><title>A recorded session of hwdyno</title><style>{"".join(rules)}{still}'
        f"text{{{font};fill:{INK};white-space:pre}}</style>"
        f'<rect width="{width}" height="{height}" rx="8" fill="{PAPER}"/>{"".join(groups)}</svg>\n'
    )


def main() -> None:
    """Record, or draw again what was recorded."""
    parser = argparse.ArgumentParser(description="Record docs/session.cast, and draw docs/session.svg.")
    parser.add_argument("--draw", action="store_true", help="only draw the .cast that is there")
    args = parser.parse_args()
    cast, picture = HERE / "session.cast", HERE / "session.svg"
    signal.signal(signal.SIGHUP, signal.SIG_IGN)  # A child's terminal that closes is no end of ours.
    if not args.draw:
        if shutil.which("hwdyno") is None:
            sys.exit("hwdyno is not on the path; run make session")
        write_cast(session(COMMANDS), cast)
    drawn = svg(frames(read_cast(cast)))
    if len(drawn.encode()) > MOST_BYTES:
        sys.exit(f"{picture.name} would have {len(drawn.encode())} bytes, above {MOST_BYTES}; record fewer frames")
    picture.write_text(drawn, encoding="utf-8")
    print(f"{picture.name}: {len(drawn.encode())} bytes, {len(read_cast(cast))} events")


if __name__ == "__main__":
    main()
