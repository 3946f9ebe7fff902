"""Reads foreign result formats into Runs, one file a format, so that they get the same curves, findings and charts."""

from __future__ import annotations

from hwdyno.formats.catalogue import list_folder_formats, list_formats
from hwdyno.formats.compressed import read_result_file
from hwdyno.formats.every_format import collapse_blanks, is_known, is_result_folder, read_every, read_folder
from hwdyno.formats.format import LARGEST_BYTES, read_as

__all__ = [
    "LARGEST_BYTES",
    "collapse_blanks",
    "is_known",
    "is_result_folder",
    "list_folder_formats",
    "list_formats",
    "read_as",
    "read_every",
    "read_folder",
    "read_result_file",
]
