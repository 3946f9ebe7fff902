"""The Run that the Python API gives: the document with what a program and a notebook do with it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING

from hwdyno.model import words
from hwdyno.model.units import plural
from hwdyno.model.words import ExperimentResult, UserError
from hwdyno.report import notebook
from hwdyno.system import output_files
from hwdyno.system.printable import printable

if TYPE_CHECKING:
    import pandas
    import polars
    import pyarrow

notebook.show(words.Run, words.Curve)


@dataclass(frozen=True, slots=True, repr=False, eq=False)
class Run(words.Run):
    """An immutable Run: ``run["storage.iodepth"].curve``, ``run.findings``, ``run.to_pandas()``, ``run.save(path)``."""

    @classmethod
    def from_document(cls, run: words.Run) -> Run:
        """The Run of a document."""
        return cls(**{field.name: getattr(run, field.name) for field in fields(words.Run)})

    def __getitem__(self, name: str) -> ExperimentResult:
        """An experiment by its name; raises ``UserError`` with the names that there are."""
        found = next((result for result in self.experiments if result.name == name), None)
        if found is None:
            from hwdyno.system.suggestions import hint

            raise UserError(f"run {self.id} has no experiment {name}; {hint(str(name), list(self))}")
        return found

    def __contains__(self, name: object) -> bool:
        return any(result.name == name for result in self.experiments)

    def __iter__(self) -> Iterator[str]:
        """The names of its experiments."""
        return (result.name for result in self.experiments)

    def __repr__(self) -> str:
        points = sum(len(result.points) for result in self.experiments)
        resources = ", ".join(dict.fromkeys(result.resource for result in self.experiments)) or "empty"
        state = "interrupted" if self.interrupted else self.verdict
        parts = (resources, plural(len(self.experiments), "experiment"), plural(points, "point"), state)
        text = f"<Run {self.id}: {', '.join(filter(None, parts))}>"
        return printable(text)

    def save(self, path: str | Path, *, overwrite: bool = False) -> Path:
        """Write the document to a file and give its path; ``hwdyno.load`` and every command read it.

        A file that hwdyno did not write is replaced only with ``overwrite``. Raises ``HwdynoError``.
        """
        from hwdyno.system.store import to_json

        output_files.write_output(Path(path), f"{to_json(self)}\n".encode(), overwrite=overwrite)
        return Path(path)

    def to_arrow(self) -> pyarrow.Table:
        """One row for each point, as ``hwdyno export`` has it; raises ``UserError`` where pyarrow is missing."""
        from hwdyno.formats import table

        return table.make_arrow(table.make_rows(self), "Run.to_arrow()")

    def to_pandas(self) -> pandas.DataFrame:
        """One row for each point, as ``hwdyno export`` has it; raises ``UserError`` where pandas is missing."""
        from hwdyno.formats import table

        try:
            import pandas
        except ImportError:
            raise _missing("pandas") from None
        return pandas.DataFrame(table.make_columns(table.make_rows(self)))

    def to_polars(self) -> polars.DataFrame:
        """One row for each point, as ``hwdyno export`` has it; raises ``UserError`` where polars is missing."""
        from hwdyno.formats import table

        try:
            import polars
        except ImportError:
            raise _missing("polars") from None
        return polars.DataFrame(table.make_columns(table.make_rows(self)))


def _missing(library: str) -> UserError:
    """The error of a method whose library is not installed."""
    return UserError(f"Run.to_{library}() needs {library}: pip install {library}")
