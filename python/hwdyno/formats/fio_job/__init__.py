"""Reads fio's job files: sections with inheritance, groups of jobs that run together, and what each asks of storage.

What the keys mean is in fio's manual, "Job file format" and "Job file parameters". A key is understood, or
it would not change what is measured and a note says that it was left out, or it stops with file and line;
``keys`` is the table of them.
"""

from hwdyno.formats.fio_job.job import Job, JobFile, parse

__all__ = ["Job", "JobFile", "parse"]
