"""Libraries that only some commands need: the extras of an installation, and the line that names a missing one."""

from __future__ import annotations

from hwdyno.model.words import UserError

EXTRAS = {
    "history": "ruptures",
    "images": "vl-convert",
    "inference": "onnxruntime",
    "mpi": "mpi4py",
    "parquet": "pyarrow",
    "postgres": "psycopg",
    "zstd": "zstandard",
}
"""The library that an extra of ``pyproject.toml`` installs, by the extra's name."""


def missing(extra: str, feature: str, instead: str = "", library: str = "") -> UserError:
    """The error of a command whose library is not installed: what needs it, how to install it, what works without.

    ``library`` is named where an extra installs several.
    """
    says = f'{feature} needs {library or EXTRAS[extra]}: pip install "hwdyno[{extra}]"'
    return UserError(f"{says}; {instead}" if instead else says)
