"""Reads the memory modules from the firmware's own table (SMBIOS structure type 17), where it may be read."""

from __future__ import annotations

from pathlib import Path
from typing import Any

TABLE = "sys/firmware/dmi/tables/DMI"
MEMORY_DEVICE, END = 17, 127
LARGEST_BYTES = 1 << 20


def modules(root: Path) -> tuple[list[dict[str, Any]], str]:
    """The populated modules, and the reason if there are none: the end of a sentence, or empty."""
    try:
        raw = (root / TABLE).read_bytes()[:LARGEST_BYTES]
    except FileNotFoundError:
        return [], "the firmware gives no SMBIOS table here"
    except OSError as error:
        return [], f"{TABLE}: {(error.strerror or str(error)).lower()}; root may read it"
    found = [module for module in map(_module, _structures(raw)) if module]
    if not found:
        return [], "the SMBIOS table names no memory modules"
    if not any(module["configured_mt_s"] for module in found):
        return found, "the SMBIOS table has no speed of the memory modules, which is usual in a guest"
    return found, ""


def _structures(raw: bytes) -> list[tuple[int, bytes, list[str]]]:
    """Each structure's type, formatted part and strings (SMBIOS Reference Specification 3.7, section 6.1)."""
    found = []
    at = 0
    while at + 4 <= len(raw):
        kind, length = raw[at], raw[at + 1]
        end = raw.find(b"\0\0", at + length)
        if length < 4 or end < 0:
            break
        strings = raw[at + length : end].split(b"\0")
        found.append((kind, raw[at : at + length], [text.decode("ascii", "replace").strip() for text in strings]))
        at = end + 2
        if kind == END:
            break
    return found


def _module(structure: tuple[int, bytes, list[str]]) -> dict[str, Any] | None:
    """A populated socket (section 7.18): size, locators, and the speed that it is configured to."""
    kind, body, strings = structure
    if kind != MEMORY_DEVICE:
        return None

    def word(at: int, size: int = 2) -> int:
        return int.from_bytes(body[at : at + size], "little") if len(body) >= at + size else 0

    def text(at: int) -> str:
        number = body[at] if len(body) > at else 0
        return strings[number - 1] if 0 < number <= len(strings) else ""

    size = word(0x0C)
    if size in {0, 0xFFFF}:
        return None
    in_bytes = (size & 0x7FFF) << (10 if size & 0x8000 else 20)
    size_bytes = (word(0x1C, 4) & 0x7FFFFFFF) << 20 if size == 0x7FFF else in_bytes
    configured = word(0x20)
    if configured == 0xFFFF:
        configured = word(0x58, 4)
    return {
        "locator": text(0x10),
        "bank_locator": text(0x11),
        "size_bytes": size_bytes,
        "configured_mt_s": configured or None,
    }
