"""Holds a Run against the laws: one rule a function, all in one table; a finding is one sentence with evidence."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import replace

from hwdyno.ceilings import with_derived
from hwdyno.curves import curves_of
from hwdyno.findings import (
    between_runs,
    children,
    compute,
    conditions,
    coverage,
    device,
    kv_cache,
    laws,
    limits,
    memory,
    network,
    network_path,
    open_loop,
    peers,
    queue,
    snia,
    steadiness,
    tlb,
    training,
    training_capacity,
    training_data,
    training_loaders,
    training_peer,
    truth,
    vector_search,
)
from hwdyno.findings.limits import why_not_double
from hwdyno.findings.rule import Case, Rule, Scope, Verdict
from hwdyno.findings.speech import ORDER, Hit, finding_of, hedged, spoken
from hwdyno.words import ExperimentResult, Finding, Measurement, Run, Validity

__all__ = ["RULES", "explain", "why_not_double"]

RULES: tuple[Rule, ...] = (
    # Laws
    Rule("physical_ceiling", "point", laws.physical_ceiling),
    Rule("rated_exceeded", "point", laws.rated_exceeded),
    Rule("little", "point", laws.little, degrades=True),
    Rule("rate_times_size", "point", laws.rate_times_size, degrades=True),
    # Did it measure what it says?
    Rule("unwritten_file", "point", truth.unwritten_file, degrades=True),
    Rule("compressed_file", "point", truth.compressed_file, degrades=True),
    Rule("page_cache", "point", truth.page_cache, degrades=True),
    Rule("direct_refused", "point", truth.direct_refused, degrades=True),
    Rule("synchronous_engine", "point", truth.synchronous_engine, degrades=True),
    Rule("depth_not_reached", "point", truth.depth_not_reached, degrades=True),
    Rule("faults", "point", truth.faults, degrades=True),
    Rule("rate_not_reached", "point", open_loop.rate_not_reached),
    Rule("too_short", "point", coverage.too_short, degrades=True),
    Rule("small_region", "point", coverage.small_region),
    Rule("shared_blocks", "point", coverage.shared_blocks),
    Rule("unequal_jobs", "point", children.unequal_jobs),
    # Did the conditions hold? First what explains the others.
    Rule("others_at_work", "point", conditions.others_at_work, degrades=True),
    Rule("steal", "point", conditions.steal, degrades=True),
    Rule("cpu_limited", "point", conditions.cpu_limited, degrades=True),
    Rule("io_limit", "point", conditions.io_limit, degrades=True),
    Rule("client_bound", "point", limits.client_bound, degrades=True),
    Rule("throttled", "point", steadiness.throttled, degrades=True),
    Rule("not_steady", "point", steadiness.not_steady, degrades=True),
    Rule("swapping", "point", conditions.swapping, degrades=True),
    Rule("clock_dropped", "point", conditions.clock_dropped, degrades=True),
    Rule("interval_not_reached", "point", conditions.interval_not_reached, degrades=True),
    Rule("outlying_repeats", "point", conditions.outlying_repeats),
    Rule("between_runs", "experiment", between_runs.between_runs),
    Rule("load_before", "run", conditions.load_before),
    Rule("link_below_its_best", "run", conditions.link_below_its_best),
    # What the curves say
    Rule("knee", "curve", queue.knee),
    Rule("still_rising", "curve", queue.still_rising),
    Rule("saturated", "curve", queue.saturated),
    Rule("load_without_effect", "curve", queue.load_without_effect),
    Rule("users_wait", "curve", open_loop.users_wait),
    Rule("best_block_size", "curve", queue.best_block_size),
    Rule("best_combination", "experiment", queue.best_combination),
    Rule("snia_not_steady", "experiment", snia.snia_not_steady),
    Rule("mix_penalty", "experiment", device.mix_penalty),
    Rule("spinning_or_solid", "run", device.spinning_or_solid),
    # What keeps a path from carrying more
    Rule("network_blackhole", "point", network_path.blackhole, degrades=True),
    Rule("network_ends_bound", "point", network.ends_bound),
    Rule("network_window", "point", network.window_limited),
    Rule("network_loss", "point", network.loss),
    Rule("network_datagram_loss", "point", network.datagram_loss),
    Rule("network_bufferbloat", "point", network.bufferbloat),
    Rule("network_mtu", "point", network_path.small_mtu),
    Rule("network_no_link", "experiment", network_path.no_link),
    Rule("network_virtual_link", "experiment", network_path.virtual_link),
    Rule("network_link", "experiment", network_path.share_of_link),
    Rule("network_policed", "experiment", network_path.policed),
    Rule("network_congestion", "experiment", network.congestion_slow),
    # Does the storage feed the accelerators?
    Rule("training_other_data", "point", training.training_other_data),
    Rule("training_faults", "point", training_data.training_faults, degrades=True),
    Rule("training_uneven", "point", training_data.training_uneven),
    Rule("training_too_small", "point", training.training_too_small),
    Rule("training_read_ahead", "point", training.training_read_ahead, degrades=True),
    Rule("training_cached", "point", training.training_cached, degrades=True),
    Rule("training_client_bound", "point", training.training_client_bound),
    Rule("training_au", "point", training.training_au),
    Rule("training_law", "point", training.training_law, degrades=True),
    Rule("training_capacity", "experiment", training_capacity.training_capacity),
    Rule("training_plain", "experiment", training_capacity.training_plain),
    Rule("training_beside_dlio", "experiment", training_peer.training_beside_dlio),
    Rule("training_beside_loaders", "experiment", training_loaders.training_beside_loaders),
    # Does it keep a model's KV cache, and answer a vector index's queries?
    Rule("io_corrupt", "point", kv_cache.io_corrupt),
    Rule("io_faults", "point", kv_cache.io_faults, degrades=True),
    Rule("io_nothing_done", "point", kv_cache.io_nothing_done),
    Rule("io_client_bound", "point", kv_cache.io_client_bound, degrades=True),
    Rule("kv_too_few", "point", kv_cache.kv_too_few),
    Rule("kv_no_room", "point", kv_cache.kv_no_room, degrades=True),
    Rule("kv_users", "experiment", kv_cache.kv_users),
    Rule("vector_recall", "point", vector_search.vector_recall),
    Rule("vector_queries", "experiment", vector_search.vector_queries),
    # Memory and arithmetic
    Rule("wrong_result", "point", memory.wrong_result, degrades=True),
    Rule("noisy_neighbour", "point", compute.noisy_neighbour, degrades=True),
    Rule("practical_bandwidth", "run", memory.practical_bandwidth),
    Rule("write_allocate", "experiment", memory.write_allocate),
    Rule("huge_pages", "experiment", memory.huge_pages),
    Rule("lines_in_flight", "run", memory.lines_in_flight),
    Rule("claimed_cache", "run", memory.claimed_cache),
    Rule("tlb_reach", "run", tlb.tlb_reach),
    Rule("wrong_node", "experiment", memory.wrong_node),
    Rule("wide_clock_drop", "run", compute.wide_clock_drop),
    Rule("operands_cost", "run", compute.operands_cost),
    Rule("peak_share", "run", compute.peak_share),
    Rule("linpack_share", "run", compute.linpack_share),
    # What the reference tools say
    Rule("peer_ratio", "experiment", peers.peer_ratio),
)
_EXPLAIN = {"others_at_work", "steal", "cpu_limited", "io_limit"}
_NAMES = {rule.name for rule in RULES}


def explain(run: Run) -> Run:
    """The Run with its points' validity, its curves and its findings, the gravest first.

    Points are judged first, because curves leave the invalid ones out of their models. Explaining a
    Run twice changes nothing; a figure that is missing (an imported Run) silences the rules that need it.
    """
    run = with_derived(run)
    judged: list[ExperimentResult] = []
    hits: dict[tuple[str, str], list[Hit]] = defaultdict(list)
    for result in run.experiments:
        points = []
        for at, point in enumerate(result.points):
            # Rounds on the way to a steady state are judged together, and not one by one.
            verdicts = _explained(_on_point(Case(run, result, at))) if result.load != snia.ROUND else []
            for rule, verdict, dependent in verdicts:
                hits[rule.name, result.resource].append(Hit(result, at, verdict, dependent))
            points.append(_judged(point, verdicts))
        judged.append(replace(result, points=tuple(points)))
    judged = [replace(result, curves=curves_of(result)) for result in judged]
    run = replace(run, experiments=tuple(judged), findings=())
    of_points = [
        spoken(rule.name, found) for rule in _rules("point") for (name, _), found in hits.items() if name == rule.name
    ]
    findings = [*of_points, *_of_the_rest(run)]
    if any(finding.rule == "others_at_work" for finding in findings):
        # They were seen at work in the points themselves, which says more than the load before.
        findings = [finding for finding in findings if finding.rule != "load_before"]
    return replace(run, findings=tuple(sorted(findings, key=_gravity)))


def _gravity(finding: Finding) -> tuple[int, bool]:
    """The gravest first; among those alike, what explains others."""
    return ORDER[finding.severity], finding.rule not in _EXPLAIN


def _rules(scope: Scope) -> list[Rule]:
    return [rule for rule in RULES if rule.scope == scope]


def _verdicts(rule: Rule, case: Case) -> list[Verdict]:
    found = rule.check(case)
    if found is None:
        return []
    return [found] if isinstance(found, Verdict) else list(found)


def _on_point(case: Case) -> list[tuple[Rule, Verdict]]:
    return [(rule, verdict) for rule in _rules("point") for verdict in _verdicts(rule, case)]


def _explained(found: list[tuple[Rule, Verdict]]) -> list[tuple[Rule, Verdict, tuple[str, ...]]]:
    """What is to be told of a point: each verdict with the rules that it explains here, and those left out."""
    names = {rule.name for rule, _ in found}
    explained = {name for _, verdict in found for name in verdict.explains} & names
    return [
        (rule, verdict, tuple(name for name in verdict.explains if name in names))
        for rule, verdict in found
        if rule.name not in explained
    ]


def _judged(point: Measurement, verdicts: list[tuple[Rule, Verdict, tuple[str, ...]]]) -> Measurement:
    """The point with its validity and the rules that took it."""
    why, validity = _before(point)
    for rule, verdict, dependent in verdicts:
        if verdict.severity == "invalid":
            why, validity = [*why, rule.name], "invalid"
        elif verdict.severity == "warning" and rule.degrades:
            # A step that others' work explains is unsteadiness, and no throttling.
            why = [*why, rule.name, *("not_steady" if name == "throttled" else name for name in dependent)]
            validity = "invalid" if validity == "invalid" else "degraded"
    return replace(point, validity=validity, why=tuple(dict.fromkeys(why)))


def _before(point: Measurement) -> tuple[list[str], Validity]:
    """What was known of a point's validity before any rule spoke."""
    others = [why for why in point.why if why not in _NAMES]
    if len(others) == len(point.why):
        return others, point.validity
    return others, "degraded" if others else "valid"


def _of_the_rest(run: Run) -> Iterator[Finding]:
    """Findings on curves, experiments and the whole Run."""
    for result in run.experiments:
        for rule in _rules("curve"):
            # Of SNIA's matrices its own tables say what there is to say.
            for curve in () if result.name.startswith(snia.PREFIX) else result.curves:
                for verdict in _verdicts(rule, Case(run, result, curve=curve)):
                    said = replace(
                        verdict, says=hedged(verdict.says, result, curve), points=verdict.points or curve.points
                    )
                    yield finding_of(rule.name, said, result)
        for rule in _rules("experiment"):
            for verdict in _verdicts(rule, Case(run, result)):
                yield finding_of(rule.name, verdict, result)
    for rule in _rules("run"):
        for verdict in _verdicts(rule, Case(run)):
            yield finding_of(rule.name, verdict, None)
