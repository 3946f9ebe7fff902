"""Keys for what a job writes, how it is synced, and how it is verified."""

from __future__ import annotations

import re

from hwdyno.formats.fio_job.reader import JobOption, Reader
from hwdyno.model.words import Parameters, UserError

VERIFIES = {
    *("crc32c", "crc32c-intel", "crc32", "crc16", "crc7", "crc64", "md5", "meta", "xxhash", "pattern"),
    *("sha1", "sha256", "sha512", "sha3-224", "sha3-256", "sha3-384", "sha3-512"),
}
_LONGEST_PATTERN = 512
_LONGEST_NUMBER = 1200
"""Digits; of a longer one the bytes would be more than a pattern has."""


def read(reader: Reader, given: Parameters) -> None:
    """Read the keys of data."""
    _syncs(reader, given)
    _content(reader, given)
    _checks(reader, given)


def _syncs(reader: Reader, given: Parameters) -> None:
    fsync, fdatasync = reader.integer("fsync", 0, 1 << 30), reader.integer("fdatasync", 0, 1 << 30)
    if fsync and fdatasync:
        raise UserError(f"{reader.file}: fsync and fdatasync in one job exclude each other; use one of them")
    for key, every in (("fsync", fsync), ("fdatasync", fdatasync)):
        if every:
            given[key] = every
    on_close, at_end = reader.flag("fsync_on_close"), reader.flag("end_fsync")
    if at_end or on_close:
        given["end_fsync"] = True


def _content(reader: Reader, given: Parameters) -> None:
    zeroes = reader.flag("zero_buffers")
    squeeze, chunk = reader.integer("buffer_compress_percentage", 0, 100), reader.size("buffer_compress_chunk")
    again, pattern = reader.integer("dedupe_percentage", 0, 100), reader.options.pop("buffer_pattern", None)
    mode = reader.options.pop("dedupe_mode", None)
    if mode is not None and mode.value != "repeat" and again:
        raise reader.error(mode, f"dedupe_mode={mode.value} is not supported; use repeat")
    if squeeze:
        given["buffer_compress_percentage"] = squeeze
        # fio's default chunk (its manual, buffer_compress_chunk).
        given["buffer_compress_chunk"] = chunk or 512
    if again:
        given["dedupe_percentage"] = again
    if zeroes:
        given["buffer_pattern"] = "00"
    elif pattern is not None:
        if squeeze:
            raise reader.error(
                pattern, "buffer_pattern with buffer_compress_percentage is not supported; use one of them"
            )
        given["buffer_pattern"] = parse_buffer(reader, "buffer_pattern", pattern).hex()


def _checks(reader: Reader, given: Parameters) -> None:
    entry, do_verify = reader.options.pop("verify", None), reader.flag("do_verify")
    pattern = reader.options.pop("verify_pattern", None)
    if entry is None or entry.value in {"", "0", "none", "null"}:
        return
    if entry.value not in VERIFIES:
        raise reader.error(entry, f"verify={entry.value} is not supported; use verify=crc32c")
    if not entry.value.startswith("crc32c"):
        reader.notes["verify"] = (
            f"verify={entry.value}: blocks have a crc32c, which finds the same damage with less CPU"
        )
    if pattern is not None:
        reader.notes["verify_pattern"] = (
            "verify_pattern is ignored: unique blocks show misplaced or stale data, which a pattern hides"
        )
    if given.pop("buffer_pattern", None) is not None:
        reader.notes["buffer_pattern"] = "verified blocks have their own content, no pattern and no zeroes"
    if do_verify is not False:
        given["verify"] = "crc32c"


def parse_buffer(reader: Reader, key: str, entry: JobOption) -> bytes:
    """Parse fio's spelling of bytes: ``"text"``, ``0xdeadbeef``, ``-12``, concatenated (its manual, buffer_pattern)."""
    text, found = entry.value, b""
    while text:
        if match := re.match(r"\"([^\"]*)\"?|0x([0-9a-fA-F]+)|(-?\d+)|([^\"\s]+)", text):
            words, digits, number, bare = match.groups()
            if digits:
                found += bytes.fromhex(digits if len(digits) % 2 == 0 else "0" + digits)
            elif number and len(number) <= _LONGEST_NUMBER:
                value = int(number)
                length = max(1, (value.bit_length() + 7 + (value < 0)) // 8)
                found += value.to_bytes(length, "little", signed=value < 0)
            else:
                found += (words or bare or number or "").encode()
            text = text[match.end() :]
        else:
            raise reader.error(entry, f'{key}={entry.value} is not a pattern such as 0xdeadbeef or "text"')
    if not 0 < len(found) <= _LONGEST_PATTERN:
        raise reader.error(entry, f"{key}={entry.value} must have 1 to {_LONGEST_PATTERN} bytes")
    return found
