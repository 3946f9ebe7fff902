"""Finds since when a figure is another one: change points of its history, or a drift, and neither in noise."""

from __future__ import annotations

import math
import statistics
from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any, TypeVar

from hwdyno.analysis.estimates import CONFIDENCE, false_discovery_rates, t_quantile
from hwdyno.explain.comparison.changes import DISCOVERY_RATE, NOISE_FLOOR
from hwdyno.model.words import Value
from hwdyno.system.optional import missing

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Floats = NDArray[Any]

MIN_RUNS = 10
"""Minimum number of runs: with fewer, no step of a typical size is distinguishable from noise among many figures."""
MIN_SIDE = 3
"""Runs on each side of a change: fewer are outliers, not a new level."""
MAX_CHANGES = 8
SHUFFLES = 9_999
_BATCHES = (199, 800, SHUFFLES - 999)
_ENOUGH = 30
"""This many shuffles as good as the series tell its p-value within a fifth, and end the search (Besag & Clifford,
Biometrika 78, 1991: sequential Monte Carlo p-values)."""
_CLIP = 3.0
"""Standard deviations (robust ones) from the median beyond which a run counts as if it were this far, as one slow run
is no level."""
_MIN_AUTOCORRELATION = 0.1
_MAX_AUTOCORRELATION = 0.8
_DIP_WEIGHT = 0.2
"""The share of the risk of a false split that levels have which were left again; steps that stay are news sooner."""
_BIAS_SHUFFLES = 8
"""Shuffles of each series that show what its split hides."""
MAD_OF_NORMAL = 1.4826
_OF_CHANGES, _OF_DRIFTS = 0.5 * DISCOVERY_RATE, 0.1 * DISCOVERY_RATE
"""The share of false ones that each kind may have: both together, with later splits, stay below the house's."""

SeriesKey = TypeVar("SeriesKey")


@dataclass(frozen=True, slots=True)
class ChangePoint:
    """The first run of another level."""

    at: int
    """Its place in the series."""
    ratio: Value
    """The level from there on over the one before, with its 95% interval."""
    before: float
    after: float
    """The medians of both levels, in the series's unit."""
    p_value: float


@dataclass(frozen=True, slots=True)
class Trend:
    """A figure's history: its levels, or its drift."""

    changes: tuple[ChangePoint, ...] = ()
    drift: Value | None = None
    """How much it changes a run, as a ratio with its 95% interval; none where it keeps its level between changes."""


def find_trends(series: Mapping[SeriesKey, Sequence[float]], strictness: float = 1.0) -> dict[SeriesKey, Trend]:
    """The trend of each series of positive figures, a run each, oldest first; all are judged together.

    Steps are sought in logarithms by E-divisive's procedure (Matteson & James, JASA 109, 2014, section 3): the best
    split of the levels so far, or the best level that was left again, compared with the same runs in shuffled order,
    until none is significant. The first split of every series shares one false discovery rate (Benjamini & Hochberg
    1995), so among any number of flat series all stay silent in 95% of histories. Where a straight line explains a
    series better than its steps (BIC), it drifts (Theil & Sen's slope, Mann & Kendall's test). Series with fewer than
    ``MIN_RUNS`` have no trend. Both rates are divided by ``strictness``.

    Raises ``UserError`` where the library of the search is missing.
    """
    logs = {key: _clip_logs(values) for key, values in series.items() if _is_fit(values)}
    autocorrelation = _autocorrelation(list(logs.values()))
    kept = (1 - autocorrelation) / (1 + autocorrelation)
    first = {key: _split_p(values, [0, len(values)], kept) for key, values in logs.items()}
    limit = _discovery_limit(list(first.values()), _OF_CHANGES / strictness)
    slopes = {key: _mann_kendall(values, kept) for key, values in logs.items()}
    steady = _discovery_limit(list(slopes.values()), _OF_DRIFTS / strictness)
    found = {key: Trend() for key in series}
    for key, values in logs.items():
        places, p_values = _steps(values, first[key], limit, kept)
        if places and _is_line(values, places):
            # Shuffled runs differ from drifting ones as from steps: the line is then what was found.
            found[key] = Trend(drift=_sen(values))
        elif places:
            found[key] = Trend(tuple(_changes(series[key], values, places, p_values)))
        elif slopes[key] <= steady:
            found[key] = Trend(drift=_sen(values))
    return {key: _beyond_noise(trend) for key, trend in found.items()}


def _is_fit(values: Sequence[float]) -> bool:
    return len(values) >= MIN_RUNS and all(value > 0 for value in values)


def _discovery_limit(p_values: Sequence[float], rate: float) -> float:
    """The largest p-value that is still significant among all of them; below 0 where none is."""
    adjusted = false_discovery_rates(p_values)
    return max((p for p, among in zip(p_values, adjusted, strict=True) if among <= rate), default=-1.0)


def _clip_logs(figures: Sequence[float]) -> Floats:
    """The logarithms of a series, with single far runs moved nearer; their order has no say in it."""
    import numpy as np

    logs = np.log(np.asarray(figures, dtype=float))
    centre = np.median(logs)
    reach = _CLIP * MAD_OF_NORMAL * float(np.median(np.abs(logs - centre)))
    clipped: Floats = np.clip(logs, centre - reach, centre + reach) if reach > 0 else logs
    return clipped


def _autocorrelation(series: Sequence[Floats]) -> float:
    """How much a run resembles the one before it beyond steps: the lag-1 correlation that most series share, 0 to 1.

    Each is read off what the best splits leave. They take a part of it away, which the same noise in shuffled order
    shows.
    """
    import numpy as np

    rng = np.random.default_rng(len(series))
    left = [residuals for residuals in _residuals(series) if float((residuals**2).sum()) > 0]
    if not left:
        return 0.0
    runs, found = sum(map(len, left)), [_lag_one(residuals) for residuals in left]
    shuffled = [rng.permutation(residuals) for residuals in left for _ in range(_BIAS_SHUFFLES)]
    pooled = statistics.fmean(found) - statistics.fmean(map(_lag_one, _residuals(shuffled)))
    return min(pooled, _MAX_AUTOCORRELATION) if pooled > _MIN_AUTOCORRELATION + 2 / math.sqrt(runs) else 0.0


def _lag_one(residuals: Floats) -> float:
    squares = float(residuals @ residuals)
    return float(residuals[1:] @ residuals[:-1]) / squares if squares > 0 else 0.0


def _residuals(series: Sequence[Floats]) -> list[Floats]:
    """What up to four levels leave of each series, without far runs; those of one length are split together."""
    import numpy as np

    by_length: dict[int, list[int]] = defaultdict(list)
    for at, values in enumerate(series):
        by_length[len(values)].append(at)
    found: dict[int, Floats] = {}
    for places in by_length.values():
        found |= zip(places, _residuals_of_rows(np.stack([series[at] for at in places])), strict=True)
    return [found[at] for at in range(len(series))]


def _residuals_of_rows(rows: Floats) -> Floats:
    import numpy as np

    first, last = np.zeros(len(rows), int), np.full(len(rows), rows.shape[1])
    middle = _best_splits(rows, first, last)
    edges = [first, _best_splits(rows, first, middle), middle, _best_splits(rows, middle, last), last]
    residuals: Floats = np.sum([_center_part(rows, low, high) for low, high in pairwise(edges)], axis=0)
    far = 3 * MAD_OF_NORMAL * np.median(np.abs(residuals), axis=1, keepdims=True)
    clipped: Floats = np.clip(residuals, -far, far)
    return clipped


def _center_part(rows: Floats, low: Floats, high: Floats) -> Floats:
    """A part of each row about its mean, and 0 outside of it."""
    import numpy as np

    at = np.arange(rows.shape[1])
    inside = (at >= low[:, None]) & (at < high[:, None])
    means = (rows * inside).sum(axis=1) / np.maximum(1, high - low)
    centred: Floats = np.where(inside, rows - means[:, None], 0.0)
    return centred


def _best_splits(rows: Floats, low: Floats, high: Floats) -> Floats:
    """Where the best split of a part of each row is; at its end where it is too short for one."""
    import numpy as np

    ends = np.arange(1, rows.shape[1] + 1)
    left, right = ends - low[:, None], high[:, None] - ends
    may_split = (left >= MIN_SIDE) & (right >= MIN_SIDE)
    sums = np.cumsum(_center_part(rows, low, high), axis=1)
    gains = np.where(may_split, sums**2 / np.where(may_split, left * right, 1), -1.0)
    places: Floats = np.where(may_split.any(axis=1), gains.argmax(axis=1) + 1, high)
    return places


def _split_contrasts(rows: Floats) -> Floats:
    """How far the best split of each row parts its levels: the F statistic, 0 for a row too short to be split."""
    import numpy as np

    length = rows.shape[1]
    if length < 2 * MIN_SIDE:
        return np.zeros(len(rows))
    rows = rows - rows.mean(axis=1, keepdims=True)
    sums = np.cumsum(rows, axis=1)[:, MIN_SIDE - 1 : length - MIN_SIDE]
    left = np.arange(MIN_SIDE, length - MIN_SIDE + 1)
    return _f_statistics(rows, (sums**2 * length / (left * (length - left))).max(axis=1))


def _dip_contrasts(rows: Floats) -> Floats:
    """The same of the best level that was left again: by one split it is hidden by the runs on its other side.

    It is circular binary segmentation (Olshen et al., Biostatistics 5, 2004); lengths are tried in steps of a half.
    """
    import numpy as np

    length = rows.shape[1]
    between = np.zeros(len(rows))
    if length < 3 * MIN_SIDE:
        return between
    rows = rows - rows.mean(axis=1, keepdims=True)
    sums = np.cumsum(rows, axis=1)[:, MIN_SIDE - 1 : length - MIN_SIDE]
    inside = MIN_SIDE
    while inside < sums.shape[1]:
        of_level = np.abs(sums[:, inside:] - sums[:, :-inside]).max(axis=1)
        np.maximum(between, of_level**2 * length / (inside * (length - inside)), out=between)
        inside += (inside + 1) // 2
    return _f_statistics(rows, between)


def _f_statistics(centred: Floats, between: Floats) -> Floats:
    import numpy as np

    whole = (centred**2).sum(axis=1)
    found: Floats = between / np.maximum(whole - between, 1e-12 * whole + 1e-300) * (centred.shape[1] - 2)
    return found


def _split_p(values: Floats, ends: Sequence[int], kept: float) -> float:
    """The p-value of a split, or of a level that was left again, as good as the best one in noise around each level.

    ``kept`` is the share of independent runs that correlated ones are worth (Bartlett's (1 - r) / (1 + r)). Both kinds
    share the risk of a false alarm (weighted p-values; Genovese, Roeder & Wasserman, Biometrika 93, 2006).
    """
    parts = [values[low:high] for low, high in pairwise(ends)]
    p_value = _shuffled_p(parts, _split_contrasts, kept) / (1 - _DIP_WEIGHT)
    if p_value * (SHUFFLES + 1) * _DIP_WEIGHT > 1:  # Else no level can be less likely.
        p_value = min(p_value, _shuffled_p(parts, _dip_contrasts, kept) / _DIP_WEIGHT)
    return min(1.0, p_value)


def _shuffled_p(parts: Sequence[Floats], contrast: Callable[[Floats], Floats], kept: float) -> float:
    import numpy as np

    rng = np.random.default_rng(sum(map(len, parts)))
    found = kept * max(float(contrast(part[None, :])[0]) for part in parts)
    if found <= 0:
        return 1.0
    as_good = done = 0
    for count in _BATCHES:
        shuffled = [contrast(rng.permuted(np.tile(part, (count, 1)), axis=1)) for part in parts]
        # A shuffle that restores the very split has the same gain but for rounding.
        as_good += int((np.max(shuffled, axis=0) >= found * (1 - 1e-9)).sum())
        done += count
        if as_good >= _ENOUGH:
            break
    return (as_good + 1) / (done + 1)


def _steps(values: Floats, first: float, limit: float, kept: float) -> tuple[list[int], list[float]]:
    """The first run of each level but the oldest, with the p-values of the splits as they were found."""
    ends, p_values = [0, len(values)], list[float]()
    p_value = first
    while p_value <= limit and len(p_values) < MAX_CHANGES:
        p_values.append(p_value)
        ends = [0, *_best_places(values, len(p_values)), len(values)]
        p_value = _split_p(values, ends, kept) if len(ends) > 2 else 1.0
    return ends[1:-1], p_values


def search_library() -> Any:
    """The library of the search; raises ``UserError`` where it is missing."""
    try:
        import ruptures
    except ImportError:
        raise missing("history", "the search for changes") from None
    return ruptures


def _best_places(values: Floats, count: int) -> list[int]:
    """The places of this many steps with the least squares, by an exact search."""
    ruptures = search_library()
    search = ruptures.Dynp(model="l2", min_size=MIN_SIDE, jump=1).fit(values)
    try:
        return [int(place) for place in search.predict(n_bkps=count)[:-1]]
    except ruptures.exceptions.BadSegmentationParameters:  # Too few runs for this many levels.
        return []


def _is_line(values: Floats, places: Sequence[int]) -> bool:
    """Whether a straight line explains the series better than its levels, by the Bayesian information criterion."""
    import numpy as np

    runs = np.arange(len(values))
    line = np.polyval(np.polyfit(runs, values, 1), runs)
    levels = np.concatenate([np.full(len(part), part.mean()) for part in np.split(values, places)])

    def criterion(model: Floats, parameters: int) -> float:
        squares = max(float(((values - model) ** 2).sum()), 1e-300)
        return len(values) * math.log(squares / len(values)) + parameters * math.log(len(values))

    return criterion(line, 2) < criterion(levels, 2 * len(places) + 1)


def _mann_kendall(values: Floats, kept: float) -> float:
    """The p-value of a rank correlation with time like this one; of correlated runs by Hamed & Rao (1998)."""
    count, tau = len(values), _tau(values)
    deviation = math.sqrt(2 * (2 * count + 5) / (9 * count * (count - 1)) / kept)
    return math.erfc(abs(tau) / deviation / math.sqrt(2))


def _tau(values: Floats) -> float:
    """Kendall's tau-b with time; 0 where all are equal. Many times as quick as scipy's, which checks much before."""
    earlier: list[float] = []
    score = tied = 0
    for value in values.tolist():
        below, not_above = bisect_left(earlier, value), bisect_right(earlier, value)
        score += below + not_above - len(earlier)
        tied += not_above - below
        earlier.insert(not_above, value)
    pairs = len(values) * (len(values) - 1) // 2
    return score / math.sqrt(pairs * (pairs - tied)) if pairs > tied else 0.0


def _sen(values: Floats) -> Value:
    from scipy.stats import theilslopes

    slope = theilslopes(values, alpha=CONFIDENCE)
    low, high = sorted((float(slope.low_slope), float(slope.high_slope)))
    return Value(math.exp(float(slope.slope)), "ratio", math.exp(low), math.exp(high))


def _changes(raw: Sequence[float], logs: Floats, places: Sequence[int], p_values: Sequence[float]) -> list[ChangePoint]:
    ends = [0, *places, len(raw)]
    found = []
    for low, at, high in zip(ends, ends[1:], ends[2:], strict=False):
        before, after = raw[low:at], raw[at:high]
        ratio = _ratio(logs[low:at], logs[at:high])
        found.append(ChangePoint(at, ratio, statistics.median(before), statistics.median(after), max(p_values)))
    return found


def _ratio(before: Floats, after: Floats) -> Value:
    """The ratio of two levels with its interval: Welch's (1947) on logarithms."""
    parts = [(float(side.var(ddof=1)) / len(side), len(side) - 1) for side in (before, after)]
    difference = float(after.mean() - before.mean())
    total = sum(variance for variance, _ in parts)
    weighted = sum(variance**2 / freedom for variance, freedom in parts)
    half = t_quantile(total**2 / weighted) * math.sqrt(total) if weighted > 0 else 0.0
    return Value(math.exp(difference), "ratio", math.exp(difference - half), math.exp(difference + half))


def _beyond_noise(trend: Trend) -> Trend:
    """The trend without steps below the noise floor, and without a drift whose direction its interval leaves open."""
    changes = tuple(change for change in trend.changes if abs(math.log(change.ratio.value)) >= NOISE_FLOOR)
    drift = trend.drift
    if drift is not None and (drift.low is None or drift.high is None or drift.low <= 1 <= drift.high):
        drift = None
    return Trend(changes, drift)
