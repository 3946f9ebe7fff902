"""A Run's report as Markdown, for people."""

from hwdyno.report.tables import markdown
from hwdyno.report.texts.text_format import Text

TEXT = Text("the tables as Markdown", markdown)
