"""Keys for a job's files: names, directories, number, sizes and the order of use."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

from hwdyno.formats.fio_job.logs import Trace
from hwdyno.formats.fio_job.reader import Reader
from hwdyno.model.words import Parameters

MAX_FILES = 4096
"""The most open files of a job's threads."""
_SERVICE = re.compile(r"(roundrobin|sequential|random)(:\d+)?|(zipf|pareto|normal|gauss)(:\d+(\.\d+)?(:\d+)?)?")


@dataclass(frozen=True, slots=True)
class Files:
    """The files that a job works on."""

    names: tuple[str, ...] = ()
    """Names by ``filename``: every thread uses each of them."""
    directories: tuple[str, ...] = ()
    """The directories, assigned to threads round-robin."""
    count: int = 1
    """Files per thread, if there are no names."""
    format: str = ""
    """Form by ``filename_format``; empty for temporary files that are removed after the job."""
    file_bytes: int | None = None
    """Bytes of one file's region; none where the size is a share or the whole of a single file."""

    @property
    def is_shared(self) -> bool:
        """Whether all threads use the same files."""
        return bool(self.names) or bool(self.format and "$jobnum" not in self.format)

    def paths(self, job: str, threads: int) -> tuple[str, ...]:
        """Every file of the job, by thread; empty for temporary files."""
        folder = [directory + "/" if directory else "" for directory in (self.directories or ("",))]
        if self.names:
            return tuple(folder[0] + name for name in self.names)
        if not self.format:
            return ()
        return tuple(
            folder[thread % len(folder)] + self._format_name(job, thread, number)
            for thread in range(1 if self.is_shared else threads)
            for number in range(self.count)
        )

    def _format_name(self, job: str, thread: int, number: int) -> str:
        words = {"$jobname": job, "$jobnum": str(thread), "$filenum": str(number), "$clientuid": "localhost"}
        return re.sub(r"\$(jobname|jobnum|filenum|clientuid)", lambda match: words[match[0]], self.format)


def _split(text: str | None) -> tuple[str, ...]:
    """Split fio's colon-separated lists of names; a backslash escapes a colon."""
    if not text:
        return ()
    return tuple(part.replace("\\:", ":") for part in re.split(r"(?<!\\):", text) if part)


def read(reader: Reader, given: Parameters, line: int) -> tuple[Files, int | None, float | None]:
    """Read the files, and the size of a thread's region or its share of the files."""
    names, directories = _split(reader.text("filename")), _split(reader.text("directory"))
    named = reader.text("filename_format") or ""
    count = reader.integer("nrfiles", 1, MAX_FILES) or 1
    if names:
        count = len(names)
    file_bytes = _find_file_bytes(reader)
    for key in ("openfiles", "file_service_type"):
        entry = reader.options.get(key)
        value: str | int | None
        value = reader.integer(key, 1, 1 << 20) if key == "openfiles" else reader.text(key)
        if entry is None or value is None:
            continue
        if isinstance(value, str) and not _SERVICE.fullmatch(value):
            raise reader.error(entry, f"file_service_type={value}: use roundrobin, sequential, random, zipf …")
        if count > 1:
            given[key] = value
    if count > 1 and "openfiles" in given:
        reader.notes["openfiles"] = (
            f"openfiles={given['openfiles']}: that many files are in use at a time; all stay open, so opening costs "
            "nothing here"
        )
    size, share = _size(reader, file_bytes, count, line)
    if count > 1:
        file_bytes = file_bytes if file_bytes is not None else size // count if size is not None else None
        if file_bytes is not None and file_bytes < 1:
            raise reader.error(line, f"size={size} is too small for {count} files")
    else:
        file_bytes = None
    return Files(names, directories, count, named, file_bytes), size, share


def of_trace(trace: Trace, files: Files) -> Files:
    """The files that a trace names, each as long as the furthest operation in the trace."""
    count = len(trace.files)
    file_bytes = -(-trace.bytes // trace.longest) * trace.longest if count > 1 else None
    return replace(files, names=trace.files, count=count, format="", file_bytes=file_bytes)


def _find_file_bytes(reader: Reader) -> int | None:
    """Read a file's length; a range gives its middle, because all files have one length here."""
    entry = reader.options.get("filesize")
    if entry is None or not re.fullmatch(r"[^-,]+[-,][^-,]+", entry.value):
        return reader.size("filesize", 1)
    reader.options.pop("filesize")
    low, high = (reader.parse_bytes(part) for part in re.split("[-,]", entry.value))
    if not low or not high or high < low:
        raise reader.error(entry, f"filesize={entry.value} is not LOW-HIGH")
    reader.notes["filesize"] = f"filesize={entry.value}: every file has the mean, {(low + high) // 2} bytes"
    return (low + high) // 2


def _size(reader: Reader, file_bytes: int | None, count: int, line: int) -> tuple[int | None, float | None]:
    entry = reader.options.get("size")
    if entry is not None and entry.value.endswith("%"):
        reader.text("size")
        if not re.fullmatch(r"\d{1,3}(\.\d+)?", entry.value[:-1]) or not 0 < float(entry.value[:-1]) <= 100:
            raise reader.error(entry, f"size={entry.value} is not a share from 1% to 100%")
        if file_bytes is not None:
            return int(file_bytes * count * float(entry.value[:-1]) / 100), None
        return None, float(entry.value[:-1]) / 100
    size = reader.size("size", 1)
    return (size if size is not None else file_bytes * count if file_bytes is not None else None), None
