"""The units that perform `hwdyno watch` again and again: a systemd service with its timer, or a Kubernetes CronJob."""

from __future__ import annotations

import argparse
import getpass
import os
import re
import shutil
import sys
from pathlib import Path

from hwdyno import __version__
from hwdyno.cli.run import list_words
from hwdyno.cli.statuses import DEGRADED
from hwdyno.model.words import UserError

NAME = "hwdyno-watch"
FOLDER = "/etc/systemd/system"
SIGTERM_STATUS = 143


def format_units(args: argparse.Namespace, every_s: float | None) -> str:
    """The units of the kind that ``--print`` names; raises ``UserError``."""
    if every_s is None:
        raise UserError(f"--print {args.print} needs --every, such as --every 1h")
    if args.print == "cronjob":
        return _cron_job(args, every_s)
    if args.node:
        raise UserError("--node is for --print cronjob; a systemd timer measures the machine that it is on")
    return systemd_units([*_program(), "watch", *list_words(args), *_outputs(args), "--quiet"], every_s)


def _outputs(args: argparse.Namespace) -> list[str]:
    """The options for what becomes of a turn, places as whole paths."""
    store = args.store and (args.store if "://" in args.store else str(Path(args.store).absolute()))
    metrics = args.metrics and args.metrics.absolute()
    given = (("--store", store), ("--post", args.post), ("--metrics", metrics))
    words = [word for name, value in given if value for word in (name, str(value))]
    return [*words, *(["--with-names"] if args.with_names else [])]


def _program() -> list[str]:
    """The program by its whole path: systemd looks for it in no environment of the user's."""
    found = shutil.which(sys.argv[0]) if Path(sys.argv[0]).name == "hwdyno" else None
    return [str(Path(found).absolute())] if found else [sys.executable, "-m", "hwdyno"]


# --- systemd


def systemd_units(line: list[str], every_s: float) -> str:
    """A service and its timer (systemd.service(5), systemd.timer(5)), each below the name of its file."""
    home = os.environ.get("HWDYNO_HOME")
    place = f"HWDYNO_HOME={Path(home).expanduser().absolute()}" if home else ""
    environment = [f"Environment={quote_word(place, expands=False)}"] if home else []
    service = [
        f"# {FOLDER}/{NAME}.service",
        f"# Made by hwdyno {__version__}. Status 1 is a change: OnFailure= may name a unit that reports it.",
        "[Unit]",
        "Description=Measure this machine and compare with its history (hwdyno watch)",
        "",
        "[Service]",
        "Type=oneshot",
        f"User={getpass.getuser()}",
        f"WorkingDirectory={str(Path.cwd()).replace('%', '%%')}",
        *environment,
        f"ExecStart={' '.join(map(quote_word, line))}",
        f"SuccessExitStatus={DEGRADED} {SIGTERM_STATUS}",
        "NoNewPrivileges=yes",
    ]
    timer = [
        f"# {FOLDER}/{NAME}.timer",
        "[Unit]",
        f"Description=Every {_seconds(every_s)} (hwdyno watch)",
        "",
        "[Timer]",
        "OnBootSec=5min",
        f"OnUnitActiveSec={_seconds(every_s)}",
        "AccuracySec=1s",
        "",
        "[Install]",
        "WantedBy=timers.target",
    ]
    return "\n".join([*service, "", *timer, ""])


def quote_word(word: str, *, expands: bool = True) -> str:
    """A word of a unit file (systemd.syntax(7)), without specifiers, and where a line ``expands`` without variables."""
    letters = (letter if letter.isprintable() else _escape_bytes(letter) for letter in word.replace("\\", "\\\\"))
    escaped = "".join(letters).replace('"', '\\"').replace("%", "%%")
    escaped = escaped.replace("$", "$$") if expands else escaped
    return escaped if re.fullmatch(r"[\w@%+=:,./-]+", escaped) else f'"{escaped}"'


def _escape_bytes(letter: str) -> str:
    return "".join(f"\\x{byte:02x}" for byte in letter.encode("utf-8", "surrogateescape"))


def _seconds(every_s: float) -> str:
    return f"{every_s:g}s"


# --- Kubernetes


def cron_schedule(every_s: float) -> str:
    """The schedule of a CronJob for a time that divides an hour, a day or a week; raises ``UserError``."""
    minutes = every_s / 60
    if minutes >= 1 and minutes < 60 and 60 % minutes == 0:
        return "* * * * *" if minutes == 1 else f"*/{minutes:.0f} * * * *"
    hours = minutes / 60
    if hours >= 1 and hours < 24 and 24 % hours == 0:
        return "0 * * * *" if hours == 1 else f"0 */{hours:.0f} * * *"
    known = {24.0: "0 0 * * *", 7 * 24.0: "0 0 * * 0"}
    if hours not in known:
        raise UserError("a CronJob cannot repeat at this --every; use one that divides an hour or a day, or 1d or 7d")
    return known[hours]


def _cron_job(args: argparse.Namespace, every_s: float) -> str:
    from hwdyno.measure.kubernetes.manifest import HOSTNAME, PLAN, Wanted, make_cron_job
    from hwdyno.measure.kubernetes.volumes import EMPTY_DIR, as_yaml, parse_volumes
    from hwdyno.measure.plan.plan_file import LARGEST_FILE
    from hwdyno.system import foreign

    if not args.node:
        raise UserError("--print cronjob needs --node NAME; `kubectl get nodes` lists them")
    if args.metrics:
        raise UserError("--metrics writes a file, which a pod loses; let Prometheus scrape `hwdyno serve --metrics`")
    if args.store and "://" not in args.store:
        raise UserError("--store FOLDER is not in the cluster; leave it out for a claim, or name postgresql://…")
    plan = foreign.read_text(args.plan, LARGEST_FILE, "a TOML file") if args.plan else ""
    volumes = parse_volumes(EMPTY_DIR)
    inside = {"plan": Path(PLAN) if plan else None, "path": Path(volumes[0].path(block=False))}
    words = ["watch", *list_words(argparse.Namespace(**{**vars(args), **inside})), *_outputs(args), "--quiet"]
    wanted = Wanted(words=tuple(words), name=NAME, volumes=volumes, on={HOSTNAME: args.node})
    documents = make_cron_job(wanted, cron_schedule(every_s), plan, keeps=not args.store)
    return as_yaml(
        documents,
        f"Made by hwdyno {__version__}: kubectl apply -f THIS",
        "A Job that fails with status 1 has found a change, and its log says which.",
    )
