from __future__ import annotations

import itertools
from dataclasses import replace

import pytest
from hwdyno.measure.sweep import Sweep, octaves, parse_axis, parse_value, powers
from hwdyno.model.axes import FIELD
from hwdyno.model.words import Axis, UserError
from hypothesis import given
from hypothesis import strategies as st

BS = Axis("bs", "B", kind="integer", least=512, most=2**40)
IODEPTH = Axis("iodepth", kind="integer", least=1, most=1024)
RW = replace(FIELD["rw"], choices=("read", "write", "randread", "randwrite", "rw", "randrw"))
RUNTIME = Axis("runtime", "s", least=0.0, most=86400.0)
DIRECT = Axis("direct", kind="flag")


def test_powers_of_two_reach_both_ends() -> None:
    assert powers(1, 1024) == (1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024)
    assert powers(1, 24) == (1, 2, 4, 8, 16, 24)
    assert powers(3, 3) == (3,)


@given(st.integers(1, 2**20), st.integers(0, 2**20))
def test_powers_rise_by_at_most_doubling(first: int, more: int) -> None:
    values = powers(first, first + more)
    assert values[0] == first
    assert values[-1] == first + more
    assert all(a < b <= 2 * a for a, b in itertools.pairwise(values))


def test_axes_read_as_typed() -> None:
    assert parse_axis("4k,16k,1M", BS) == (4096, 16384, 2**20)
    assert parse_axis("1..8", IODEPTH) == (1, 2, 4, 8)
    assert parse_axis("10..50+20", IODEPTH) == (10, 30, 50)
    assert parse_axis("4k..16k", BS) == (4096, 8192, 16384)
    assert parse_axis("randread,randrw:70", RW) == ("randread", "randrw:70")
    assert parse_axis("0.5s,2m", RUNTIME) == (0.5, 120.0)
    assert parse_axis("0,1", DIRECT) == (False, True)
    assert parse_axis("4,4,8", IODEPTH) == (4, 8)
    assert parse_axis("4k,word") == (4096, "word")


@pytest.mark.parametrize(
    ("text", "axis", "says"),
    [
        ("-4", IODEPTH, "negative"),
        ("-4k", BS, "negative"),
        ("0", IODEPTH, "1 to 1024"),
        ("2048", IODEPTH, "1 to 1024"),
        ("8..1", IODEPTH, "lower end first"),
        ("1..", IODEPTH, "a range needs both ends"),
        ("1..8+0", IODEPTH, "step above 0"),
        ("1,,2", IODEPTH, "missing"),
        ("reed", RW, "did you mean 'read'"),
        ("randread:70", RW, "only rw and randrw"),
        ("randrw:101", RW, "0 to 100"),
        ("randrw:", RW, "0 to 100"),
        ("read..write", RW, "number at both ends"),
        ("maybe", DIRECT, "1 or 0"),
        ("1s..2s", RUNTIME, "whole numbers"),
    ],
)
def test_wrong_value_is_one_line(text: str, axis: Axis, says: str) -> None:
    with pytest.raises(UserError, match=says) as refused:
        parse_axis(text, axis)
    assert f"--{axis.name}" in str(refused.value)
    assert "\n" not in str(refused.value)


def test_points_are_all_combinations() -> None:
    sweep = Sweep(rw=("randread", "randrw:70"), bs=("4k", "16k"), iodepth=8)
    assert sweep.points([RW]) == [
        {"rw": "randread", "bs": "4k", "iodepth": 8},
        {"rw": "randread", "bs": "16k", "iodepth": 8},
        {"rw": "randrw", "bs": "4k", "iodepth": 8, "rwmixread": 70},
        {"rw": "randrw", "bs": "16k", "iodepth": 8, "rwmixread": 70},
    ]


def test_a_share_that_is_moot_makes_no_second_point() -> None:
    sweep = Sweep(rw=("randread", "randrw"), rwmixread=(50, 70))
    assert len(sweep.points([RW])) == 3


def test_blocks_are_visited_once_in_order() -> None:
    sweep = Sweep(rw="read", iodepth=(1, 8)) + Sweep(rw=("read", "write"), iodepth=8)
    assert [tuple(point.values()) for point in sweep.points()] == [("read", 1), ("read", 8), ("write", 8)]
    assert sweep.axes == {"rw": ("read", "write"), "iodepth": (1, 8)}
    assert sweep.replace({"iodepth": 4}).axes["iodepth"] == (4,)


def test_the_load_is_the_axis_with_most_numbers_and_depth_first() -> None:
    assert Sweep(rw="read", bs=(1, 2, 3), iodepth=(1, 2)).load_axis() == "bs"
    assert Sweep(rw="read", bs=(1, 2), iodepth=(1, 2)).load_axis() == "iodepth"
    assert Sweep(rw=("read", "write", "rw"), numjobs=(1, 2)).load_axis() == "numjobs"
    assert Sweep(rw="read", bs=4096).load_axis() == "iodepth"


def test_too_many_points_are_a_slip() -> None:
    with pytest.raises(UserError, match="points"):
        Sweep(a=tuple(range(1000)), b=tuple(range(1000))).points()


def test_a_value_of_a_plan_file_is_held_to_the_same_bounds() -> None:
    assert parse_value(8, IODEPTH) == 8
    assert parse_value(True, DIRECT) is True
    with pytest.raises(UserError, match="whole number"):
        parse_value("eight", IODEPTH)


def test_a_word_may_hold_a_colon() -> None:
    mix = Axis("mix", kind="choice", choices=("1:0", "2:1", "2:1-nt"))
    assert parse_axis("2:1,2:1-nt", mix) == ("2:1", "2:1-nt")


def test_octaves_are_even_in_the_logarithm() -> None:
    sizes = octaves(8 << 10, 1 << 20, 8)
    assert (sizes[0], sizes[-1], len(sizes)) == (8 << 10, 1 << 20, 57)
    assert all(1.03 < after / before < 1.15 for before, after in itertools.pairwise(sizes))
    assert all(size % 64 == 0 for size in sizes)
