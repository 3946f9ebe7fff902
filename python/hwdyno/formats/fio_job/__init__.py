"""Parses fio's job files: sections with inheritance, groups of concurrent jobs, and each job's parameters.

What the keys mean is in fio's manual, "Job file format" and "Job file parameters". A key is
implemented, or ignored with a note because it does not change the result, or rejected with file and line;
``keys`` has the table.
"""

from hwdyno.formats.fio_job.command_line import make_job_file
from hwdyno.formats.fio_job.job import FioJob, JobFile, parse
from hwdyno.formats.fio_job.text import LARGEST_BYTES

__all__ = ["LARGEST_BYTES", "FioJob", "JobFile", "make_job_file", "parse"]
