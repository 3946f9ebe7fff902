"""What has to be prepared before it can be measured, one file a scenario: a data set, an index, a server's other end.

A scenario says what it prepares, lists its points and cleans up. It is found by walking this folder for a
``Kind``, whose options the command line and plan files take.
"""

from hwdyno.measure.scenarios.catalogue import of_experiments
from hwdyno.measure.scenarios.entry import make_scenario
from hwdyno.measure.scenarios.kinds import Kind, all_kinds, of_command
from hwdyno.measure.scenarios.preparation import Interrupted, Preparation
from hwdyno.measure.scenarios.request import Option, PlanFile, Request, parse_place
from hwdyno.measure.scenarios.scenario import Scenario

__all__ = [
    "Interrupted",
    "Kind",
    "Option",
    "PlanFile",
    "Preparation",
    "Request",
    "Scenario",
    "all_kinds",
    "make_scenario",
    "of_command",
    "of_experiments",
    "parse_place",
]
