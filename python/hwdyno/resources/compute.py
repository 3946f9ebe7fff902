"""The processor's arithmetic, by operations on registers and by linear algebra."""

from __future__ import annotations

from hwdyno.ceilings import compute
from hwdyno.resources.description import Doubt, Resource

RESOURCE = Resource(
    name="compute",
    title="Processor",
    subject="The processor",
    derived={compute.LOOPS: compute.of_loops, "linpack": compute.of_algebra},
    limits=("the clock under this load", "execution units shared with another thread", "the caches' bandwidth"),
    client="measured",
    fills_processors=True,
    above_ceiling=Doubt(
        cause="work was counted that was not done, or the clock stood higher than when it was measured",
        test="Measure it again, longer",
        changes={"runtime": 5},
    ),
    on_faults="Look at dmesg for machine checks and a processor that throttles",
    runtime_share=0.3,
)
