"""The processor's arithmetic: operations on registers and linear algebra."""

from __future__ import annotations

from dataclasses import replace

from hwdyno.analysis.ceilings import compute
from hwdyno.analysis.resources.description import Doubt, HeadlineFigure, Resource


def _peak(name: str, precision: str) -> HeadlineFigure:
    """Multiply-adds with all threads, by the widest instructions."""
    return HeadlineFigure(
        title=f"{name} peak, {{threads}}",
        unit="FLOP/s",
        kernels=(compute.LOOPS,),
        where={"operation": "fma", "precision": precision},
        experiments=("compute.grid",),
        most="threads",
        prefer={"isa": "auto"},
    )


RESOURCE = Resource(
    name="compute",
    title="Processor",
    common_options=("operation", "precision", "isa", "threads", "n", "blas", "runtime", "profile", "peers", "dry-run"),
    examples=(
        "hwdyno compute",
        "hwdyno compute linpack --peers",
        "hwdyno compute --operation fma --precision double,single --isa auto --threads 1",
    ),
    subject="The processor",
    figures=(
        _peak("FP64", "double"),
        _peak("FP32", "single"),
        HeadlineFigure(
            title="LINPACK, n = {n}",
            unit="FLOP/s",
            kernels=("linpack",),
            where={"operation": "lu"},
            most="n",
            typical="linpack",
        ),
        replace(_peak("FP64", "double"), where={"operation": "fma", "precision": "double", "threads": 1}),
    ),
    derived={compute.LOOPS: compute.of_loops, "linpack": compute.of_algebra},
    limits=("the clock under this load", "execution units shared with another thread", "cache bandwidth"),
    client="measured",
    fills_processors=True,
    above_ceiling=Doubt(
        cause="work that was counted but not done, or a clock above the measured one",
        test="Measure again, longer",
        changes={"runtime": 5},
    ),
    on_faults="Check dmesg for machine checks and throttling",
    runtime_share=0.3,
    knee="threads",
    survey_parts=("cpu",),
)
