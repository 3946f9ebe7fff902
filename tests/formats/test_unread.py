"""What a text has and no Run of it is counted, and what was read is not."""

from __future__ import annotations

import pytest
from hwdyno import formats

STREAM = """Function    Best Rate MB/s  Avg time     Min time     Max time
Copy:           12345.6     0.000130     0.000129     0.000140
Scale:          11111.1     0.000144     0.000143     0.000150
Add:            13000.0     0.000185     0.000184     0.000190
Triad:          13100.0     0.000183     0.000182     0.000188
"""


@pytest.mark.parametrize(
    ("more", "says"),
    [
        ("", ""),
        ("Total memory required = 228.9 MiB (= 0.2 GiB).\n", "1 line, for example 'Total memory required = 228.9 MiB"),
        ("The drive then read 512 MB/s.\n", "1 line, for example 'The drive then read 512 MB/s.'"),
        ("Array of 76.3 MiB\nThe drive then read 512 MB/s.\n", "2 lines, for example 'The drive then read 512 MB/s.'"),
        ("Copy once more: 12.3456 GB/s\n", ""),
        ("Copy once more: 12345.6 MB/s in 0.7 s\n", ""),
        ("The other one: 17.9 GB/s in 0.000130 s\n", "1 line, for example 'The other one: 17.9 GB/s"),
        ("sync (usec): min=2, max=379\n", "1 line, for example 'sync (usec): min=2, max=379'"),
        ("It is the 3rd of 5 runs.\n", ""),
    ],
    ids=["nothing", "a setting", "a rate", "a rate before a setting", "in another unit", "read, with a time",
         "a known time beside a rate", "a unit ahead of its numbers", "no unit"],
)  # fmt: skip
def test_lines_whose_figures_no_run_has_are_counted(more: str, says: str) -> None:
    runs, _ = formats.read_every(STREAM + more, "post.txt")
    assert "".join(note.says for run in runs for note in run.notes).startswith(says)
    assert bool(says) == any(run.notes for run in runs)


def test_a_text_of_a_million_quantities_is_not_searched_whole() -> None:
    text = STREAM + "It took 17.31 s and then 18.33 s.\n" * 100_000
    runs, _ = formats.read_every(text, "post.txt")
    assert "lines or more, for example 'It took 17.31 s" in runs[0].notes[0].says
