"""A Run's points as CSV, for programs."""

from hwdyno.report.tables import csv_text
from hwdyno.report.texts.text_format import Text

TEXT = Text("CSV, one line per point, in base units", csv_text)
