"""Prints how often curves, capacities and intervals hold: ``python -m calibration [--machines N] [WHAT …]``.

``make calibration`` runs it whole; docs/dev/calibration.md keeps what it printed last.
"""

from __future__ import annotations

import argparse
import math

from hwdyno.analysis.curves.open_loop import next_rate

from calibration import curves, machines, power, rates, repeats, states

PROFILES = ("quick", "standard")
MAX_SHARES = (0.5, 0.7, 0.9)


def _share(count: int, total: int) -> str:
    return f"{count / total:.1%}" if total else "-"


def _curves(count: int, seed: int) -> None:
    print(f"\n## Curves ({count:,} machines a family)\n")
    print(
        "| family | read right | read as knee | knee covered | ceiling covered | bias | ceiling under a point | named |"
    )
    print("| --- | --- | --- | --- | --- | --- | --- | --- |")
    for family in machines.FAMILIES:
        found = curves.score(family, count, seed)
        named = [f"{rule} {_share(times, count)}" for rule, times in sorted(found.named.items())]
        if found.rolled:
            named.append(f"of losses over 10%: {_share(found.rolled_named, found.rolled)}")
        cells = [
            family,
            _share(found.right_state, count),
            _share(found.knees, count),
            _share(found.knee_covered, count),
            _share(found.ceiling_covered, len(found.off)),
            "" if math.isnan(found.bias) else f"{found.bias:+.1%}",
            _share(found.below_best, count),
            ", ".join(named),
        ]
        print(f"| {' | '.join(cells)} |", flush=True)


def _rates(count: int, seed: int) -> None:
    print(f"\n## Capacity from an open loop ({count:,} loops a cell)\n")
    heads = ["service", "arrivals", "rates up to", "within 10%", "left open", "within 10% of the rest"]
    heads += ["best fit within 10%", "open, then answered with the rate advised", "within 10% of these"]
    print(f"| {' | '.join(heads)} |")
    print(f"|{' --- |' * len(heads)}")
    for service in rates.SERVICES:
        for random_arrivals in (True, False):
            for most in MAX_SHARES:
                found = rates.score(service, most, count, random_arrivals=random_arrivals, seed=seed)
                cells = [
                    service,
                    "at random" if random_arrivals else "even",
                    f"{most:.0%}",
                    _share(found.within, count),
                    _share(found.open, count),
                    _share(found.within, count - found.open),
                    _share(found.fits, count),
                    _share(found.answered, found.open) if next_rate(most) < 1 else "-",
                    _share(found.settled, found.answered),
                ]
                print(f"| {' | '.join(cells)} |", flush=True)


def _intervals(count: int, seed: int) -> None:
    print(f"\n## Intervals under the stopping rule ({count:,} points a cell)\n")
    heads = ["process", "profile", f"covered, {repeats.POINTS} points", "half width", "covered, a point alone"]
    heads += ["half width", "samples show all of it", "of those covered", "repeats, 8 points", "alone"]
    heads += ["repeats outside, unremarked", "two modes named"]
    print(f"| {' | '.join(heads)} |")
    print(f"|{' --- |' * len(heads)}")
    for process in repeats.PROCESSES:
        for profile in PROFILES:
            found = repeats.score(process, profile, count, seed)
            cells = [
                process,
                profile,
                _share(found.together, count),
                f"{found.together_halves / count:.1%}",
                _share(found.covered, count),
                f"{found.half:.1%}",
                _share(found.shown, count),
                _share(found.shown_covered, found.shown),
                f"{found.repeats / count:.1f}",
                f"{found.repeats_alone / count:.1f}",
                _share(found.unremarked, count),
                _share(found.noted, count),
            ]
            print(f"| {' | '.join(cells)} |", flush=True)


def _states(count: int, seed: int) -> None:
    print(f"\n## A device that changes during the run ({count:,} runs a cell)\n")
    print("| what else moves the readings | change | named | named at its place |")
    print("| --- | --- | --- | --- |")
    for noise in states.NOISES:
        for change in (1.0, 0.75, 0.5, 1 / 0.75):
            found = states.score(noise, change, count, seed)
            words = "none" if change == 1 else f"{change - 1:+.0%}"
            print(f"| {noise} | {words} | {_share(found.named, count)} | {_share(found.placed, count)} |", flush=True)


def _power(count: int, seed: int) -> None:
    print(f"\n## What is named ({count:,} points a cell)\n")
    print("| planted | repeats | named | anything above an info |")
    print("| --- | --- | --- | --- |")
    for name, plant in power.PLANTS.items():
        for times in (3, 5):
            found = power.score(name, count, times, seed)
            named = _share(found.named, count) if plant.rule else ""
            print(f"| {name} | {times} | {named} | {_share(found.warned, count)} |", flush=True)


def main() -> None:
    """Print the tables that are named, or all."""
    parser = argparse.ArgumentParser(prog="calibration", description=__doc__)
    parser.add_argument("--machines", type=int, default=1500, help="of each family of machines")
    parser.add_argument("--loops", type=int, default=200, help="of each cell of open loops")
    parser.add_argument("--trials", type=int, default=2000, help="of each cell of intervals, and of changes")
    parser.add_argument("--points", type=int, default=500, help="of each cell of what is planted")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument(
        "what", nargs="*", help="curves, rates, power, states, intervals; all of them where none is named"
    )
    args = parser.parse_args()
    tables = {
        "curves": lambda: _curves(args.machines, args.seed),
        "rates": lambda: _rates(args.loops, args.seed),
        "power": lambda: _power(args.points, args.seed),
        "states": lambda: _states(args.trials, args.seed),
        "intervals": lambda: _intervals(args.trials, args.seed),
    }
    if unknown := set(args.what) - set(tables):
        parser.error(f"no table is called {', '.join(sorted(unknown))}; there are: {', '.join(tables)}")
    for table in args.what or tables:
        tables[table]()


if __name__ == "__main__":
    main()
