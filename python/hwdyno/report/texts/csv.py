"""A Run's points as CSV, for programs."""

from hwdyno.report.tables import csv_text
from hwdyno.report.texts import Text

TEXT = Text("one line a point as CSV, in base units", csv_text)
