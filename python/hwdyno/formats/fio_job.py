"""Reads fio's job files: sections with inheritance, groups of jobs that run together, and what each asks of storage.

What the keys mean is in fio's manual, "Job file format" and "Job file parameters". A key is understood, or
it would not change what is measured and a note says that it was left out, or it stops with file and line.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field, replace

from hwdyno.formats import fio_options
from hwdyno.formats.fio_keys import HARMLESS, WHY
from hwdyno.words import Parameters, UserError

LARGEST_BYTES = 1 << 20
"""A job file above this is a slip."""
MOST_JOBS = 256

_SECONDS = {"": 1.0, "us": 1e-6, "usec": 1e-6, "ms": 1e-3, "msec": 1e-3, "s": 1.0, "sec": 1.0}
_SECONDS |= {"m": 60.0, "min": 60.0, "h": 3600.0, "d": 86400.0}
_TIME = re.compile(r"(\d+(?:\.\d+)?)\s*([a-z]*)", re.IGNORECASE)
_SYNCHRONOUS = {"psync": "", "sync": "lseek and read", "vsync": "readv", "pvsync": "preadv", "pvsync2": "preadv2"}
_MIXES = ("rw", "randrw")
# fio's places for buffers, and the pages that they lie in here.
_BUFFERS = {"malloc": "small", "mmap": "small", "shm": "small", "mmaphuge": "huge", "shmhuge": "huge"}


@dataclass(frozen=True, slots=True)
class Entry:
    """One key of a section, and where it stands."""

    value: str
    line: int


@dataclass(frozen=True, slots=True)
class Job:
    """One job, in the words of our kernel ``storage_blocks``."""

    name: str
    line: int
    group: int
    """Jobs of one group run at the same time; groups follow one another."""
    parameters: Parameters
    filename: str | None
    """As written; none for a file of the job's own."""
    directory: str | None
    size: int | None
    """Bytes of the region a thread; none for all of a file that is there."""
    size_share: float | None
    """Or its share of the file."""
    notes: tuple[tuple[str, str], ...] = ()
    """Code and sentence."""

    @property
    def writes(self) -> bool:
        """Whether it writes."""
        rw = str(self.parameters["rw"])
        mix = self.parameters.get("rwmixread", 50)
        return "write" in rw or (rw in _MIXES and mix != 100)


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


def parse(text: str, name: str, ignore: Collection[str] = (), environment: Mapping[str, str] | None = None) -> JobFile:
    """Read a job file; ``ignore`` names keys that the user wants left out. Raises ``UserError`` in one line."""
    if len(text) > LARGEST_BYTES:
        raise UserError(f"{name} is larger than any job file ({LARGEST_BYTES >> 20} MiB)")
    jobs: list[Job] = []
    group = 0
    for title, line, options in _sections(text, name, os.environ if environment is None else environment):
        stops = "stonewall" in options or "wait_for_previous" in options or "new_group" in options
        if stops and jobs:
            group += 1
        jobs += _jobs(title, line, group, options, name, frozenset(ignore))
        if len(jobs) > MOST_JOBS:
            raise UserError(f"{name}:{line}: more than {MOST_JOBS} jobs; split the file")
    if not jobs:
        raise UserError(f"{name} has no job: write a section such as [reads] with rw=randread and size=1g")
    told = dict.fromkeys(note for job in jobs for note in job.notes)
    return JobFile(name, tuple(jobs), tuple(told))


def _sections(text: str, name: str, environment: Mapping[str, str]) -> list[tuple[str, int, dict[str, Entry]]]:
    """Each job's section with what it inherits from every [global] before it."""
    shared: dict[str, Entry] = {}
    found: list[tuple[str, int, dict[str, Entry]]] = []
    current: dict[str, Entry] | None = None
    for number, raw in enumerate(text.splitlines(), 1):
        line = raw.strip()
        if not line or line[0] in "#;":
            continue
        if line.startswith("["):
            title, closed, rest = line[1:].partition("]")
            if not closed or not title.strip() or (rest.strip() and rest.strip()[0] not in "#;"):
                raise UserError(f"{name}:{number}: '{line}' is no section; write [name]")
            if title.strip().lower() == "global":
                current = shared
            else:
                current = dict(shared)
                found.append((title.strip(), number, current))
            continue
        if line.startswith("include "):
            raise UserError(f"{name}:{number}: include is not supported; put the other file's lines here")
        if current is None:
            raise UserError(f"{name}:{number}: '{line}' stands before the first section; write [global] above it")
        key, _, value = line.partition("=")
        key = key.strip().lower()
        current[fio_options.ALIASES.get(key, key)] = Entry(_expanded(value.strip(), name, number, environment), number)
    return found


def _expanded(value: str, name: str, line: int, environment: Mapping[str, str]) -> str:
    def look_up(match: re.Match[str]) -> str:
        found = environment.get(match[1])
        if found is None:
            raise UserError(f"{name}:{line}: the environment has no {match[1]}; set it, or write the value")
        return found

    return re.sub(r"\$\{(\w+)\}", look_up, value).strip("\"'")


class _Reader:
    """The keys of one job, taken one after the other; what is left at the end is not supported."""

    def __init__(self, file: str, options: dict[str, Entry], ignore: frozenset[str]) -> None:
        self.file, self.options, self.ignore = file, dict(options), ignore
        self.notes: dict[str, str] = {}
        kb_base = self.text("kb_base")
        self.kb_base = 1000 if kb_base == "1000" else 1024
        for key in ignore & set(self.options):
            self.options.pop(key)
            self.notes[f"ignored_{key}"] = f"{key} was left out because --ignore said so"

    def error(self, line: int, says: str) -> UserError:
        return UserError(f"{self.file}:{line}: {says}")

    def has(self, key: str) -> bool:
        return key in self.options

    def text(self, key: str, otherwise: str | None = None) -> str | None:
        entry = self.options.pop(key, None)
        return otherwise if entry is None else entry.value

    def _read(self, key: str, convert: Callable[[str], float | int | None], wanted: str) -> float | int | None:
        entry = self.options.pop(key, None)
        if entry is None:
            return None
        value = convert(entry.value)
        if value is None:
            raise self.error(entry.line, f"{key}={entry.value} is not {wanted}")
        return value

    def integer(self, key: str, low: int = 0, high: int = 1 << 62) -> int | None:
        def convert(text: str) -> int | None:
            number = self.bytes_of(text)
            return number if number is not None and low <= number <= high else None

        found = self._read(key, convert, f"a whole number of {low} or more" if high >= 1 << 62 else f"{low} to {high}")
        return None if found is None else int(found)

    def flag(self, key: str) -> bool | None:
        entry = self.options.pop(key, None)
        if entry is None:
            return None
        if entry.value not in {"", "0", "1"}:
            raise self.error(entry.line, f"{key}={entry.value} is neither 0 nor 1")
        return entry.value != "0"

    def bytes_of(self, text: str) -> int | None:
        text = text.strip()
        if re.fullmatch(r"0x[0-9a-f]{1,16}", text, re.IGNORECASE):
            return int(text, 16)
        found = fio_options.size(text, self.kb_base) if not re.search(r"[,:-]", text) else text
        return found if isinstance(found, int) else None

    def size(self, key: str, least: int = 0) -> int | None:
        def convert(text: str) -> int | None:
            number = self.bytes_of(text)
            return number if number is not None and number >= least else None

        found = self._read(key, convert, f"a size of {least} bytes or more, such as 4k or 1g")
        return None if found is None else int(found)

    def seconds(self, key: str, unit: str = "s") -> float | None:
        def convert(text: str) -> float | None:
            match = _TIME.fullmatch(text)
            scale = _SECONDS.get((match[2] or unit).lower()) if match else None
            return float(match[1]) * scale if match and scale is not None else None

        return self._read(key, convert, "a time such as 30s, 2m or 500ms")

    def one_for_both(self, key: str, rw: str) -> Entry | None:
        """The value for the directions used, where fio takes one for reads and one for writes."""
        entry = self.options.pop(key, None)
        if entry is None or "," not in entry.value:
            return entry
        parts = [part.strip() for part in entry.value.split(",")]
        read, write = parts[0], parts[1] or parts[0]
        used = {read or write, write} if rw in _MIXES else {write if "write" in rw else read}
        used.discard("")
        if len(used) > 1:
            raise self.error(
                entry.line, f"{key}={entry.value}: reads and writes of one job must be alike here; write two jobs"
            )
        return Entry(used.pop() if used else "", entry.line)

    def leave(self, line: int) -> None:
        """Hold what is left against the keys that change nothing."""
        for key, entry in self.options.items():
            if key in HARMLESS:
                self.notes.setdefault(f"left_out_{key}", HARMLESS[key])
                continue
            raise self.error(entry.line or line, _refusal(key))


def _refusal(key: str) -> str:
    import difflib

    if key in WHY:
        return f"{key} is not supported and would change the result: {WHY[key]}; --ignore {key} runs without it"
    near = difflib.get_close_matches(key, [*KEYS, *HARMLESS], n=1, cutoff=0.8)
    mend = f"did you mean {near[0]}?" if near else f"--ignore {key} runs without it"
    return f"{key} is not supported, and leaving it out might change the result; {mend}"


def _jobs(title: str, line: int, group: int, options: dict[str, Entry], file: str, ignore: frozenset[str]) -> list[Job]:
    reader = _Reader(file, options, ignore)
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
    size, share = _size(reader, given, line)
    filename, directory = reader.text("filename") or None, reader.text("directory") or None
    if filename and ":" in filename.replace("\\:", ""):
        raise reader.error(
            options["filename"].line, "several files in one filename are not supported; write a job each"
        )
    offset = reader.size("offset")
    given["offset"] = offset or 0
    if given.get("time_based"):
        reader.text("loops")
    _passes(reader, given, size, line)
    reader.leave(line)
    for key in ("rate", "rate_bytes"):
        if key in given:
            given[key] = float(given[key] or 0) * jobs if key == "rate" else int(given[key] or 0) * jobs
    if given.get("io_size"):
        given["io_size"] = int(given["io_size"] or 0) * jobs
    made = Job(
        name, line, group, given, filename and filename.replace("\\:", ":"), directory, size, share,
        tuple(reader.notes.items()),
    )  # fmt: skip
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
    given["share"] = "whole" if filename and jobs > 1 else "partition"
    return [made]


def _order(reader: _Reader, given: Parameters, line: int) -> None:
    entry = reader.options.pop("rw", None) or Entry("read", line)
    word, colon, modifier = entry.value.partition(":")
    rw = {"readwrite": "rw", "randreadwrite": "randrw"}.get(word, word)
    if rw not in {"read", "write", "randread", "randwrite", "rw", "randrw"}:
        raise reader.error(
            entry.line, f"rw={word} is not supported; there are read, write, randread, randwrite, rw, randrw"
        )
    given["rw"] = rw
    read, write = reader.integer("rwmixread", 0, 100), reader.integer("rwmixwrite", 0, 100)
    if rw in _MIXES:
        given["rwmixread"] = read if read is not None else 100 - write if write is not None else 50
    if colon:
        step = reader.bytes_of(modifier.lstrip("-"))
        if rw.startswith("rand") or step is None:
            raise reader.error(
                entry.line, f"rw={entry.value}: only an order in sequence takes a distance, such as read:8k"
            )
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


def _zones(reader: _Reader, spread: str, line: int) -> str:
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


def _lengths(reader: _Reader, given: Parameters) -> None:
    rw = str(given["rw"])
    bs, span, split = (reader.one_for_both(key, rw) for key in ("bs", "bsrange", "bssplit"))
    given["bs"] = 4096
    if bs is not None:
        if re.fullmatch(r"[^-]+-[^-]+", bs.value):
            span = bs
        else:
            length = reader.bytes_of(bs.value)
            if length is None or not 512 <= length <= 1 << 40:
                raise reader.error(bs.line, f"bs={bs.value} is not a block size from 512 bytes on")
            given["bs"] = length
    if span is not None:
        low, _, high = span.value.partition("-")
        first, last = reader.bytes_of(low), reader.bytes_of(high)
        if not first or not last or first < 512 or last < first or last // first > 256:
            raise reader.error(span.line, f"bsrange={span.value} is not LOW-HIGH, such as 4k-64k (at most 256 lengths)")
        # Like fio, whole multiples of the least, equally often.
        given["bssplit"] = ":".join(str(length) for length in range(first, last + 1, first))
        given["bs"] = last // first * first
    if split is not None:
        parts = []
        for part in split.value.split(":"):
            word, _, percent = part.partition("/")
            length = reader.bytes_of(word)
            if length is None or length < 512 or not re.fullmatch(r"\d{0,3}", percent):
                raise reader.error(
                    split.line, f"bssplit={split.value} is not BYTES/PERCENT:BYTES/PERCENT, such as 4k/60:64k/40"
                )
            parts.append((length, percent))
        total, open_ = sum(int(percent or 0) for _, percent in parts), any(not percent for _, percent in parts)
        if total > 100 or (total < 100 and not open_):
            raise reader.error(split.line, f"bssplit={split.value}: the shares make {total}%, not 100%")
        given["bssplit"] = ":".join(f"{length}/{percent}" if percent else str(length) for length, percent in parts)
        given["bs"] = max(length for length, _ in parts)
    stride = given.pop("stride", None)
    if isinstance(stride, int) and stride:
        # fio adds the distance to the end of the operation before.
        step = stride + int(given["bs"] or 0)
        given["stride"] = abs(step)
        if step < 0:
            given["pattern"] = "backward"


def _engine(reader: _Reader, given: Parameters, line: int) -> None:
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
        known = "io_uring, libaio, psync, sync, vsync, pvsync, pvsync2, mmap"
        raise reader.error(entry.line, f"ioengine={entry.value} is not supported; there are {known}")
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
        raise reader.error(buffers.line, f"mem={buffers.value} is not supported; there are {', '.join(_BUFFERS)}")
    given["mem"] = _BUFFERS[kind]
    if (cpus := reader.options.pop("cpus_allowed", None)) is not None:
        found: list[str] = []
        for part in cpus.value.split(","):
            if not (match := re.fullmatch(r"(\d{1,4})(?:-(\d{1,4}))?", part.strip())):
                raise reader.error(cpus.line, f"cpus_allowed={cpus.value} is no list of processors, such as 0,2-3")
            found += map(str, range(int(match[1]), int(match[2] or match[1]) + 1))
        given["cpus"] = ",".join(found)


def _times(reader: _Reader, given: Parameters) -> None:
    runtime, based = reader.seconds("runtime"), reader.has("time_based")
    based = bool(reader.flag("time_based")) if based else False
    given["runtime"], given["time_based"] = runtime or 0.0, based and bool(runtime)
    given["ramp_time"] = reader.seconds("ramp_time") or 0.0
    given["startdelay"] = reader.seconds("startdelay") or 0.0
    for key in ("seed", "randseed"):
        if (seed := reader.integer(key)) is not None:
            given["seed"] = seed


def _pace(reader: _Reader, given: Parameters) -> None:
    rw = str(given["rw"])
    for key, ours in (("rate_iops", "rate"), ("rate", "rate_bytes")):
        entry = reader.one_for_both(key, rw)
        if entry is None or not entry.value:
            continue
        amount = reader.bytes_of(entry.value)
        if amount is None:
            raise reader.error(
                entry.line, f"{key}={entry.value} is no rate, such as {'2000' if ours == 'rate' else '10m'}"
            )
        # fio counts a mix's rate for each direction; ours is of both together.
        given[ours] = amount * (2 if rw in _MIXES else 1)
    if given.get("rate") and given.get("rate_bytes"):
        raise UserError(f"{reader.file}: rate and rate_iops in one job exclude each other here; give one of them")
    process = reader.text("rate_process")
    if process not in {None, "linear", "poisson"}:
        raise UserError(f"{reader.file}: rate_process={process} is neither linear nor poisson")
    if process == "poisson":
        given["rate_process"] = "poisson"
    think = reader.seconds("thinktime", "us")
    blocks = reader.integer("thinktime_blocks", 1, 1 << 30)
    if think:
        given["thinktime"], given["thinktime_blocks"] = think, blocks or 1


def _integrity(reader: _Reader, given: Parameters) -> None:
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
        if entry.value not in {"crc32c", "crc32c-intel"}:
            raise reader.error(entry.line, f"verify={entry.value} is not supported; take verify=crc32c")
        if do_verify is not False:
            given["verify"] = "crc32c"


def _size(reader: _Reader, given: Parameters, line: int) -> tuple[int | None, float | None]:
    entry = reader.options.get("size")
    files = reader.integer("nrfiles", 1, 1 << 20) or 1
    each = reader.size("filesize", 512)
    if files > 1:
        reader.notes["one_file"] = f"nrfiles={files}: one file of the same length stands for them"
    if entry is not None and entry.value.endswith("%"):
        reader.text("size")
        if not re.fullmatch(r"\d{1,3}(\.\d+)?", entry.value[:-1]) or not 0 < float(entry.value[:-1]) <= 100:
            raise reader.error(entry.line, f"size={entry.value} is no share from 1% to 100%")
        if each is not None:
            return int(each * files * float(entry.value[:-1]) / 100), None
        return None, float(entry.value[:-1]) / 100
    size = reader.size("size", 512)
    return (size if size is not None else each * files if each is not None else None), None


def _passes(reader: _Reader, given: Parameters, size: int | None, line: int) -> None:
    loops, moved, count = reader.integer("loops", 1), reader.size("io_size"), reader.integer("number_ios", 1)
    if given["time_based"]:
        return
    if loops and loops > 1:
        if size is None:
            raise UserError(f"{reader.file}:{line}: loops needs a size in bytes")
        given["io_size"] = size * loops
    if moved:
        given["io_size"] = moved
    if count:
        given["io_size"] = count * int(given["bs"] or 4096)


KEYS = (
    *("name", "stonewall", "wait_for_previous", "new_group", "rw", "rwmixread", "rwmixwrite", "random_distribution"),
    *(
        "bs",
        "bsrange",
        "bssplit",
        "ioengine",
        "direct",
        "buffered",
        "iodepth",
        "iodepth_batch_complete_min",
        "hipri",
        "iomem",
    ),
    *(
        "invalidate",
        "cpus_allowed",
        "runtime",
        "time_based",
        "ramp_time",
        "startdelay",
        "randseed",
        "rate",
        "rate_iops",
    ),
    *("rate_process", "thinktime", "thinktime_blocks", "fsync", "fdatasync", "fsync_on_close", "end_fsync", "verify"),
    *("do_verify", "nrfiles", "filesize", "size", "loops", "io_size", "number_ios", "numjobs", "offset"),
    *("offset_increment", "filename", "directory", "kb_base"),
)
"""The keys that are understood."""
