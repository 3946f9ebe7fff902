"""Reads fio's job files: sections with inheritance, groups of jobs that run together, and what each asks of storage.

What the keys mean is in fio's manual, "Job file format" and "Job file parameters". A key is understood, or
it would not change what is measured and a note says that it was left out, or it stops with file and line.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field, replace

from hwdyno.formats import fio_files, fio_options
from hwdyno.formats.fio_files import Files
from hwdyno.formats.fio_log import NO_LOGS, Logs
from hwdyno.formats.fio_reader import MIXES, Entry, Reader
from hwdyno.words import Parameters, UserError

LARGEST_BYTES = 1 << 20
"""A job file above this is a slip."""
MOST_JOBS = 256
VERIFIES = {
    *("crc32c", "crc32c-intel", "crc32", "crc16", "crc7", "crc64", "md5", "meta", "xxhash"),
    *("sha1", "sha256", "sha512", "sha3-224", "sha3-256", "sha3-384", "sha3-512"),
}

DEEPEST_INCLUDE = 16
_MACHINE: dict[str, Callable[[], int]] = {
    "pagesize": lambda: os.sysconf("SC_PAGE_SIZE"),
    "mb_memory": lambda: os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") >> 20,
    "ncpus": lambda: os.cpu_count() or 1,
}
_SYNCHRONOUS = {"psync": "", "sync": "lseek and read", "vsync": "readv", "pvsync": "preadv", "pvsync2": "preadv2"}
# fio's places for buffers, and the pages that they lie in here.
_BUFFERS = {"malloc": "small", "mmap": "small", "shm": "small", "mmaphuge": "huge", "shmhuge": "huge"}


@dataclass(frozen=True, slots=True)
class Job:
    """One job, in the words of our kernel ``storage_blocks``."""

    name: str
    line: int
    group: int
    """Jobs of one group run at the same time; groups follow one another."""
    parameters: Parameters
    files: Files
    size: int | None
    """Bytes of the region a thread; none for all of a file that is there."""
    size_share: float | None
    """Or its share of the file."""
    logs: Logs = NO_LOGS
    notes: tuple[tuple[str, str], ...] = ()
    """Code and sentence."""

    @property
    def writes(self) -> bool:
        """Whether it writes."""
        rw = str(self.parameters["rw"])
        mix = self.parameters.get("rwmixread", 50)
        return "write" in rw or (rw in MIXES and mix != 100)


@dataclass(frozen=True, slots=True)
class JobFile:
    """A whole job file."""

    name: str
    jobs: tuple[Job, ...]
    notes: tuple[tuple[str, str], ...] = field(default=())

    @property
    def groups(self) -> tuple[tuple[Job, ...], ...]:
        """The jobs by group, in order."""
        return tuple(
            tuple(job for job in self.jobs if job.group == group) for group in sorted({job.group for job in self.jobs})
        )


Open = Callable[[str], str]
"""Gives the text of a file that another includes; raises ``OSError``."""


def _no_files(name: str) -> str:
    raise FileNotFoundError(2, "no such file", name)


def parse(
    text: str,
    name: str,
    ignore: Collection[str] = (),
    environment: Mapping[str, str] | None = None,
    included: Open = _no_files,
) -> JobFile:
    """Read a job file; ``ignore`` names keys that the user wants left out. Raises ``UserError`` in one line."""
    if len(text) > LARGEST_BYTES:
        raise UserError(f"{name} is larger than any job file ({LARGEST_BYTES >> 20} MiB)")
    jobs: list[Job] = []
    group = 0
    known = os.environ if environment is None else environment
    for title, line, options in _sections(text, name, known, included):
        stops = any(_set(options, key) for key in ("stonewall", "wait_for_previous", "new_group"))
        if stops and jobs:
            group += 1
        jobs += _jobs(title, line, group, options, name, frozenset(ignore))
        if len(jobs) > MOST_JOBS:
            raise UserError(f"{name}:{line}: more than {MOST_JOBS} jobs; split the file")
    if not jobs:
        raise UserError(f"{name} has no job: write a section such as [reads] with rw=randread and size=1g")
    told = dict.fromkeys(note for job in jobs for note in job.notes)
    return JobFile(name, tuple(jobs), tuple(told))


def _set(options: Mapping[str, Entry], key: str) -> bool:
    return key in options and options[key].value != "0"


def _lines(text: str, name: str, included: Open, depth: int = 0) -> list[tuple[str, str, int]]:
    """Lines without comments, each with its file and number; those of included files in their place."""
    found = []
    for number, raw in enumerate(text.splitlines(), 1):
        line = re.split("[#;]", raw, maxsplit=1)[0].strip()
        if not line.startswith("include "):
            if line:
                found.append((line, name, number))
            continue
        other = line.removeprefix("include ").strip()
        if depth >= DEEPEST_INCLUDE:
            raise UserError(
                f"{name}:{number}: include {other} is the {DEEPEST_INCLUDE + 1}th inside another; one is enough"
            )
        try:
            inner = included(other)
        except (OSError, ValueError) as error:
            why = getattr(error, "strerror", None) or str(error)
            raise UserError(f"{name}:{number}: include {other}: {str(why).lower()}") from None
        if len(inner) > LARGEST_BYTES:
            raise UserError(f"{name}:{number}: include {other}: it is larger than any job file")
        found += _lines(inner, other, included, depth + 1)
    return found


def _sections(
    text: str, name: str, environment: Mapping[str, str], included: Open
) -> list[tuple[str, int, dict[str, Entry]]]:
    """Each job's section with what it inherits from every [global] before it."""
    shared: dict[str, Entry] = {}
    found: list[tuple[str, int, dict[str, Entry]]] = []
    current: dict[str, Entry] | None = None
    for line, where, number in _lines(text, name, included):
        if line.startswith("["):
            title, closed, rest = line[1:].partition("]")
            if not closed or not title.strip() or rest.strip():
                raise UserError(f"{where}:{number}: '{line}' is no section; write [name]")
            if title.strip().lower() == "global":
                current = shared
            else:
                current = dict(shared)
                found.append((title.strip(), number, current))
            continue
        if current is None:
            raise UserError(f"{where}:{number}: '{line}' stands before the first section; write [global] above it")
        key, _, value = line.partition("=")
        key = key.strip().lower()
        entry = Entry(_expanded(value.strip(), where, number, environment), number, "" if where == name else where)
        current[fio_options.ALIASES.get(key, key)] = entry
    return found


def _expanded(value: str, name: str, line: int, environment: Mapping[str, str]) -> str:
    def look_up(match: re.Match[str]) -> str:
        found = environment.get(match[1])
        if found is None:
            raise UserError(f"{name}:{line}: the environment has no {match[1]}; set it, or write the value")
        return found

    value = re.sub(r"\$\{(\w+)\}", look_up, value).strip("\"'")
    return re.sub(r"\$(pagesize|mb_memory|ncpus)\b", lambda match: str(_MACHINE[match[1]]()), value)


def _jobs(title: str, line: int, group: int, options: dict[str, Entry], file: str, ignore: frozenset[str]) -> list[Job]:
    reader = Reader(file, options, ignore)
    for key in ("stonewall", "wait_for_previous", "new_group"):
        reader.text(key)
    name = reader.text("name") or title
    given: Parameters = {}
    _order(reader, given, line)
    _lengths(reader, given)
    _engine(reader, given, line)
    _times(reader, given)
    _pace(reader, given)
    _integrity(reader, given)
    jobs = reader.integer("numjobs", 1, 1024) or 1
    increment = reader.size("offset_increment") or 0
    files, size, share = fio_files.read(reader, given, line)
    logs = Logs.read(reader, given, name)
    offset = reader.size("offset")
    given["offset"] = offset or 0
    _passes(reader, given)
    reader.leave(line)
    for key in ("rate", "rate_bytes"):
        if key in given:
            given[key] = float(given[key] or 0) * jobs if key == "rate" else int(given[key] or 0) * jobs
    if given.get("io_size"):
        given["io_size"] = int(given["io_size"] or 0) * jobs
    made = Job(name, line, group, given, files, size, share, logs, tuple(reader.notes.items()))
    if increment and jobs > 1:
        one = {key: float(value or 0) / jobs if key == "rate" else int(value or 0) // jobs
               for key, value in given.items() if key in {"rate", "rate_bytes", "io_size"}}  # fmt: skip
        return [
            replace(
                made,
                name=f"{name}.{number}",
                parameters={**given, **one, "numjobs": 1, "offset": (offset or 0) + number * increment},
            )
            for number in range(jobs)
        ]
    given["numjobs"] = jobs
    # In fio, jobs that name a file each cover all of it; without a name each has a file of its own.
    given["share"] = "whole" if files.shared and jobs > 1 else "partition"
    return [made]


def _order(reader: Reader, given: Parameters, line: int) -> None:
    entry = reader.options.pop("rw", None) or Entry("read", line)
    word, colon, modifier = entry.value.partition(":")
    rw = {"readwrite": "rw", "randreadwrite": "randrw"}.get(word, word)
    if rw not in {"read", "write", "randread", "randwrite", "rw", "randrw"}:
        raise reader.error(entry, f"rw={word} is not supported; there are read, write, randread, randwrite, rw, randrw")
    given["rw"] = rw
    read, write = reader.integer("rwmixread", 0, 100), reader.integer("rwmixwrite", 0, 100)
    if rw in MIXES:
        given["rwmixread"] = read if read is not None else 100 - write if write is not None else 50
    if colon:
        step = reader.bytes_of(modifier.lstrip("-"))
        if rw.startswith("rand") or step is None:
            raise reader.error(entry, f"rw={entry.value}: only an order in sequence takes a distance, such as read:8k")
        given["stride"] = -step if modifier.startswith("-") else step
    drawn = reader.options.get("random_distribution")
    spread = reader.text("random_distribution") or "random"
    if not rw.startswith("rand"):
        return
    if "," in spread or spread.startswith("zoned_abs"):
        raise reader.error(
            drawn.line if drawn else line, f"random_distribution={spread}: one for reads and writes, relative"
        )
    given["random_distribution"] = _zones(reader, spread, drawn.line if drawn else line)


def _zones(reader: Reader, spread: str, line: int) -> str:
    """The spread; shares and sizes of zones that were left open get what is left, in equal parts, as in fio."""
    if not spread.startswith("zoned:"):
        kind, _, value = spread.partition(":")
        if kind not in {"random", "zipf", "pareto", "normal"} or (value and not re.fullmatch(r"\d+(\.\d+)?", value)):
            raise reader.error(
                line, f"random_distribution={spread}: take random, zipf:N, pareto:N, normal:N or zoned:A/B:C/D"
            )
        return spread
    columns: list[list[float | None]] = [[], []]
    for zone in spread.removeprefix("zoned:").split(":"):
        parts = zone.split("/")
        if len(parts) != 2 or not all(re.fullmatch(r"(\d{1,3}(\.\d+)?)?", part) for part in parts):
            raise reader.error(line, f"random_distribution={spread}: zones are SHARE/SIZE:SHARE/SIZE, in percent")
        for column, part in zip(columns, parts, strict=True):
            column.append(float(part) if part else None)
    for column in columns:
        left, open_ = 100 - sum(part or 0 for part in column), column.count(None)
        if left < -1e-9 or (not open_ and left > 1e-9):
            raise reader.error(line, f"random_distribution={spread}: shares and sizes must each be 100% in all")
        column[:] = [left / open_ if part is None else part for part in column]
    return "zoned:" + ":".join(f"{visits:.12g}/{size:.12g}" for visits, size in zip(*columns, strict=True))


def _lengths(reader: Reader, given: Parameters) -> None:
    """Lengths of reads and writes: one for all, or a table for each direction that is used."""
    rw = str(given["rw"])
    used = (0, 1) if rw in MIXES else (1,) if "write" in rw else (0,)
    keys = [reader.by_direction(key) for key in ("bs", "bsrange")]
    split = reader.options.pop("bssplit", None)
    tables = []
    for way in used:
        table = [(4096, "100")]
        for both, read in zip(keys, (_one_length, _range), strict=True):
            if both is not None:
                table = read(reader, both[way])
        if split is not None:
            parts = [part.strip() for part in split.value.split(",")]
            text = parts[way] if way < len(parts) and parts[way] else parts[0]
            table = _table(reader, Entry(text, split.line, split.file))
        tables.append(table)
    given["bs"] = max(length for table in tables for length, _ in table)
    if all(table == tables[0] and len(table) == 1 for table in tables):
        _strides(given)
        return
    texts = [":".join(f"{length}/{percent}" if percent else str(length) for length, percent in one) for one in tables]
    given["bssplit"] = texts[0]
    if texts[-1] != texts[0]:
        given["bssplit_write"] = texts[-1]
    _strides(given)


def _one_length(reader: Reader, entry: Entry) -> list[tuple[int, str]]:
    if re.fullmatch(r"[^-]+-[^-]+", entry.value):
        return _range(reader, entry)
    length = reader.bytes_of(entry.value)
    if length is None or not 1 <= length <= 1 << 40:
        raise reader.error(entry, f"bs={entry.value} is not a block size from 1 byte on")
    return [(length, "100")]


def _range(reader: Reader, entry: Entry) -> list[tuple[int, str]]:
    low, _, high = entry.value.partition("-")
    first, last = reader.bytes_of(low), reader.bytes_of(high)
    if not first or not last or last < first or last // first > 256:
        raise reader.error(entry, f"bsrange={entry.value} is not LOW-HIGH, such as 4k-64k (at most 256 lengths)")
    # Like fio, whole multiples of the least, equally often.
    return [(length, "") for length in range(first, last + 1, first)]


def _table(reader: Reader, entry: Entry) -> list[tuple[int, str]]:
    parts = []
    for part in entry.value.split(":"):
        word, _, percent = part.partition("/")
        length = reader.bytes_of(word)
        if not length or not re.fullmatch(r"\d{0,3}", percent):
            raise reader.error(entry, f"bssplit={entry.value} is not BYTES/PERCENT:BYTES/PERCENT, such as 4k/60:64k/40")
        parts.append((length, percent))
    total, open_ = sum(int(percent or 0) for _, percent in parts), any(not percent for _, percent in parts)
    if total > 100 or (total < 100 and not open_):
        raise reader.error(entry, f"bssplit={entry.value}: the shares make {total}%, not 100%")
    return parts


def _strides(given: Parameters) -> None:
    stride = given.pop("stride", None)
    if isinstance(stride, int) and stride:
        # fio adds the distance to the end of the operation before.
        step = stride + int(given["bs"] or 0)
        given["stride"] = abs(step)
        if step < 0:
            given["pattern"] = "backward"


def _engine(reader: Reader, given: Parameters, line: int) -> None:
    entry = reader.options.pop("ioengine", None) or Entry("psync", line)
    direct, buffered = reader.flag("direct"), reader.flag("buffered")
    given["direct"] = direct if direct is not None else buffered is False
    depth = reader.integer("iodepth", 1, 1024) or 1
    if entry.value in _SYNCHRONOUS:
        given["ioengine"] = "psync"
        if _SYNCHRONOUS[entry.value]:
            reader.notes["engine_psync"] = f"ioengine {entry.value} ({_SYNCHRONOUS[entry.value]}) runs as psync (pread)"
    elif entry.value in {"io_uring", "libaio", "mmap"}:
        given["ioengine"] = entry.value
    else:
        raise reader.error(entry, f"ioengine={entry.value} is not supported: {_not_a_file(entry.value)}")
    if depth > 1 and given["ioengine"] in {"psync", "mmap"}:
        reader.notes["depth_moot"] = (
            f"iodepth {depth} means nothing on the synchronous engine {entry.value}: 1 is in flight"
        )
        depth = 1
    given["iodepth"] = depth
    least = reader.integer("iodepth_batch_complete_min", 0, 1024)
    if least:
        given["iodepth_batch_complete_min"] = least
    # fio drops a buffered file from the cache first, unless told not to.
    given["drop_cache"] = reader.flag("invalidate") is not False
    if reader.flag("hipri"):
        given["hipri"] = True
    buffers = reader.options.pop("iomem", None)
    kind = buffers.value.split(":")[0] if buffers is not None else "malloc"
    if buffers is not None and kind not in _BUFFERS:
        raise reader.error(buffers, f"mem={buffers.value} is not supported; there are {', '.join(_BUFFERS)}")
    given["mem"] = _BUFFERS[kind]
    if (cpus := reader.options.pop("cpus_allowed", None)) is not None:
        found: list[str] = []
        for part in cpus.value.split(","):
            if not (match := re.fullmatch(r"(\d{1,4})(?:-(\d{1,4}))?", part.strip())):
                raise reader.error(cpus, f"cpus_allowed={cpus.value} is no list of processors, such as 0,2-3")
            found += map(str, range(int(match[1]), int(match[2] or match[1]) + 1))
        given["cpus"] = ",".join(found)


def _not_a_file(engine: str) -> str:
    names = re.fullmatch(r"(file|dir)(create|stat|delete)", engine)
    if names:
        operation = {"delete": "unlink"}.get(names[2], names[2])
        return f"hwdyno storage --operation {operation} measures what it does"
    if engine in {"net", "netsplice", "rdma"}:
        return "hwdyno network measures the network"
    return (
        "it measures something else than a file through the kernel, or needs a library of its own; "
        "there are io_uring, libaio, psync, sync, vsync, pvsync, pvsync2, mmap"
    )


def _times(reader: Reader, given: Parameters) -> None:
    runtime, based = reader.seconds("runtime"), reader.has("time_based")
    based = bool(reader.flag("time_based")) if based else False
    given["runtime"], given["time_based"] = runtime or 0.0, based and bool(runtime)
    given["ramp_time"] = reader.seconds("ramp_time") or 0.0
    given["startdelay"] = reader.seconds("startdelay") or 0.0
    criterion, window = reader.options.pop("steadystate", None), reader.seconds("steadystate_duration")
    ramp, interval = reader.seconds("steadystate_ramp_time"), reader.seconds("steadystate_check_interval")
    if criterion is not None and window:
        if not re.fullmatch(r"(iops|bw|lat)(_slope)?:\d+(\.\d+)?%?", criterion.value):
            raise reader.error(criterion, f"steadystate={criterion.value} is no criterion such as iops_slope:0.3%")
        given["steadystate"] = criterion.value
        given["steadystate_duration"], given["steadystate_ramp_time"] = window, ramp or 0.0
        given["steadystate_interval"] = interval or 1.0
        if window < 2 * (interval or 1.0):
            raise reader.error(
                criterion, f"steadystate_duration={window:g} must hold two intervals of {interval or 1:g} s"
            )
    elif criterion is not None:
        reader.notes["steadystate"] = "steadystate without steadystate_duration is off, as in fio"
    for key in ("seed", "randseed"):
        if (seed := reader.integer(key)) is not None:
            given["seed"] = seed


def _pace(reader: Reader, given: Parameters) -> None:
    rw = str(given["rw"])
    for key, ours in (("rate_iops", "rate"), ("rate", "rate_bytes")):
        entry = reader.one_for_both(key, rw)
        if entry is None or not entry.value:
            continue
        amount = reader.bytes_of(entry.value)
        if amount is None:
            raise reader.error(entry, f"{key}={entry.value} is no rate, such as {'2000' if ours == 'rate' else '10m'}")
        # fio counts a mix's rate for each direction; ours is of both together.
        given[ours] = amount * (2 if rw in MIXES else 1)
    if given.get("rate") and given.get("rate_bytes"):
        raise UserError(f"{reader.file}: rate and rate_iops in one job exclude each other here; give one of them")
    process = reader.text("rate_process")
    if process not in {None, "linear", "poisson"}:
        raise UserError(f"{reader.file}: rate_process={process} is neither linear nor poisson")
    if process == "poisson":
        given["rate_process"] = "poisson"
    think = reader.seconds("thinktime", "us")
    blocks = reader.integer("thinktime_blocks", 1, 1 << 30)
    spin, busy = reader.seconds("thinktime_spin", "us"), reader.seconds("thinktime_iotime", "s")
    kind = reader.text("thinktime_blocks_type")
    if kind not in {None, "complete", "issue"}:
        raise UserError(f"{reader.file}: thinktime_blocks_type={kind} is neither complete nor issue")
    if kind == "issue" and int(given.get("iodepth") or 1) > 1:
        reader.notes["thinktime_blocks_type"] = "before each pause what is in flight comes home, as with complete"
    if think:
        given["thinktime"], given["thinktime_blocks"] = think, blocks or 1
        if spin:
            given["thinktime_spin"] = min(spin, think)
        if busy:
            given["thinktime_iotime"] = busy


def _integrity(reader: Reader, given: Parameters) -> None:
    fsync, fdatasync = reader.integer("fsync", 0, 1 << 30), reader.integer("fdatasync", 0, 1 << 30)
    if fsync and fdatasync:
        raise UserError(f"{reader.file}: fsync and fdatasync in one job exclude each other here; give one of them")
    for key, every in (("fsync", fsync), ("fdatasync", fdatasync)):
        if every:
            given[key] = every
    on_close, at_end = reader.flag("fsync_on_close"), reader.flag("end_fsync")
    if at_end or on_close:
        given["end_fsync"] = True
    entry = reader.options.pop("verify", None)
    do_verify = reader.flag("do_verify")
    if entry is not None and entry.value not in {"", "0", "none"}:
        if entry.value not in VERIFIES:
            raise reader.error(entry, f"verify={entry.value} is not supported; take verify=crc32c")
        if not entry.value.startswith("crc32c"):
            reader.notes["verify"] = (
                f"verify={entry.value}: blocks are sealed with crc32c, which finds the same damage and costs less CPU"
            )
        if do_verify is not False:
            given["verify"] = "crc32c"


def _passes(reader: Reader, given: Parameters) -> None:
    loops, moved, count = reader.integer("loops", 1), reader.size("io_size"), reader.integer("number_ios", 1)
    if given["time_based"]:
        return
    if loops and loops > 1:
        given["loops"] = min(loops, 1 << 30)
    if moved:
        given["io_size"] = moved
    if count:
        given["io_size"] = count * int(given["bs"] or 4096)
