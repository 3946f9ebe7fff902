"""Converts a Run to its JSON document and back, and describes the document in JSON Schema."""

from __future__ import annotations

import json
import math
import re
import secrets
from collections.abc import Callable, Iterator, Mapping
from dataclasses import fields, is_dataclass, replace
from datetime import datetime, timezone
from functools import cache
from typing import Any, TypeVar

from hwdyno.model.axes import with_field_axes
from hwdyno.model.histogram import Histogram
from hwdyno.model.machine import Machine, survey_from_machine
from hwdyno.model.words import SCHEMA, Axis, ExperimentResult, Latency, Measurement, Run, UserError
from hwdyno.system import foreign
from hwdyno.system.printable import escape_text
from hwdyno.system.store.atomic_files import StoreError
from hwdyno.system.store.former_names import rename_keys

SCHEMA_ID = "urn:hwdyno:schema:run:2"

T = TypeVar("T")


def new_id(now: datetime | None = None) -> str:
    """A new Run's name: the UTC time, so that names sort by age, and a few random letters against collisions."""
    return f"{now or datetime.now(timezone.utc):%Y%m%d-%H%M%S}-{secrets.token_hex(2)}"


# --- a Run as text


@cache
def _adapter(kind: Any) -> Any:
    from pydantic import TypeAdapter

    _refuse_unknown_keys()
    return TypeAdapter(kind)


@cache
def _refuse_unknown_keys() -> None:
    """Have every word refuse a key that it does not have: a renamed field would empty stored Runs in silence."""
    for word in _words().values():
        word.__pydantic_config__ = {"extra": "forbid"}  # type: ignore[attr-defined]


def word_from(kind: Callable[..., T], plain: Any) -> T:
    """Build one of the words from parsed JSON. Raises ``ValueError`` if it does not fit."""
    word: T = _adapter(kind).validate_python(plain)
    return word


def plain_values(value: object) -> Any:
    """Convert one of the words to plain JSON values. Raises ``StoreError`` for a figure that is not finite.

    It needs no schema of the declared types, which pydantic would have to make before a run's first reading.
    """
    wrong: list[str] = []
    plain = _plain(value, "", wrong)
    if wrong:
        raise StoreError(f"{wrong[0]} is not a finite number, which JSON cannot hold; please report this bug")
    return plain


def _plain(value: Any, where: str, wrong: list[str], *, is_float: bool = False) -> Any:
    """The value as JSON has it; the place of each figure that is not finite is added to ``wrong``."""
    kind: Any = type(value)
    if kind is int:
        return float(value) if is_float else value
    if kind is str or value is None or kind is bool:
        return value
    if kind is float:
        if not math.isfinite(value):
            wrong.append(where.lstrip("."))
        return value
    if is_dataclass(value):
        return {
            name: _plain(getattr(value, name), f"{where}.{name}", wrong, is_float=is_float)
            for name, is_float in _fields(kind)
        }
    if isinstance(value, tuple | list):
        return [_plain(inner, f"{where}[{at}]", wrong, is_float=is_float) for at, inner in enumerate(value)]
    if isinstance(value, Mapping):
        # Half a character in a key would be refused by who reads the document.
        names = (str(key).encode("utf-8", "replace").decode() for key in value)
        pairs = zip(names, value.values(), strict=True)
        return {name: _plain(inner, f"{where}.{name}", wrong, is_float=is_float) for name, inner in pairs}
    # A number of a numerical library is converted to Python's.
    return _plain(value.item(), where, wrong, is_float=is_float) if hasattr(value, "item") else str(value)


@cache
def _fields(kind: Any) -> tuple[tuple[str, bool], ...]:
    """The fields of a word, and whether each holds floats: a whole number there is written as it is read again."""
    return tuple((field.name, bool(re.search(r"\bfloat\b", str(field.type)))) for field in fields(kind))


def to_json(run: Run, indent: int | None = None) -> str:
    """Serialize a Run. Raises ``StoreError`` for a figure that is not finite."""
    return escape_text(json.dumps(plain_values(run), indent=indent, ensure_ascii=False, allow_nan=False))


def from_json(text: str | bytes, name: str = "this document") -> Run:
    """Parse a Run's document; ``name`` is used in error messages.

    Raises ``StoreError`` in one line for text that is not JSON, not a Run, or a Run of a newer schema.
    """
    try:
        plain = foreign.parse_json(text, name, is_ours=True)
    except UserError as error:
        raise StoreError(str(error)) from None
    return run_from(plain, name)


def run_from(plain: Any, name: str) -> Run:
    """Make a Run of what its document holds; see ``from_json``."""
    from pydantic import ValidationError

    schema = plain.get("schema") if isinstance(plain, dict) else None
    upgrade = _UPGRADES.get(schema) if isinstance(schema, str) else None
    if upgrade is None and schema != SCHEMA:
        if isinstance(schema, str) and schema.startswith("hwdyno.run/"):
            raise StoreError(f"{name} has schema {schema}, and this hwdyno reads {SCHEMA}; update hwdyno")
        raise StoreError(f"{name} is not a hwdyno Run: it has no schema {SCHEMA}")
    try:
        plain = rename_keys(plain)
        run = word_from(Run, plain) if upgrade is None else upgrade(plain)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        where = ".".join(str(part) for part in first["loc"])
        if first["type"] == "unexpected_keyword_argument":
            raise StoreError(f"{name} has the unknown key {where}; if a newer hwdyno wrote it, update hwdyno") from None
        raise StoreError(f"{name} is not a valid Run: {where}: {_one_line(first['msg'])}") from None
    run = _without_made_percentiles(run)
    wrong = next(_contradictions(run), None)
    if wrong is not None:
        raise StoreError(f"{name} is not a valid Run: {wrong}")
    return run


def _without_made_percentiles(run: Run) -> Run:
    """The Run without the percentiles that former versions made of a table's mean: its latency counts no operation."""
    if not run.imported_from:
        return run

    def honest(point: Measurement) -> Measurement:
        latency = point.latency_ns
        if (
            latency is None
            or latency.count
            or latency.histogram
            or {latency.p50, latency.min, latency.max} != {latency.mean}
        ):
            return point
        return replace(point, latency_ns=Latency(latency.mean, None, None, None, None, None, None, 0))

    results = (replace(experiment, points=tuple(map(honest, experiment.points))) for experiment in run.experiments)
    return replace(run, experiments=tuple(results))


def _contradictions(run: Run) -> Iterator[str]:
    """What no type forbids, and no reader of a Run could use: points that are not there, spoilt histograms."""
    for at, experiment in enumerate(run.experiments):
        count = len(experiment.points)
        named = [index for curve in experiment.curves for index in curve.points]
        named += [peer.point for peer in experiment.peers]
        yield from (f"experiments.{at}: point {index} does not exist" for index in named if not 0 <= index < count)
        latencies = [point.latency_ns for point in experiment.points]
        try:
            for latency in latencies:
                if latency is not None and latency.histogram:
                    Histogram.decompress(latency.histogram)
        except ValueError as error:
            yield f"experiments.{at}.points: a latency is {_one_line(error)}"


_OPTIONS_1 = {
    "training_checkpoint": Axis("model", option="checkpoint"),
    "inference_kv_cache": Axis("model", option="kv-cache"),
    "inference_vector_search": Axis("index", option="vector-search"),
}
_COMMANDS_1 = {"compute_clock": "compute clock", "network_ping": "network ping"}
"""What schema 1 knew by the kernel alone."""


def _from_1(plain: dict[str, Any]) -> Run:
    """A document of schema 1, whose axes are the field's: it has no declarations."""
    survey = plain.get("machine")
    machines = [survey_from_machine(Machine.of_survey(survey))] if isinstance(survey, dict) and survey else []
    others = {key: value for key, value in plain.items() if key != "machine"}
    run: Run = word_from(Run, {**others, "machines": machines, "schema": SCHEMA})
    return replace(run, experiments=tuple(map(_declared_1, run.experiments)))


def _declared_1(result: ExperimentResult) -> ExperimentResult:
    known, option = with_field_axes(result).declaration, _OPTIONS_1.get(result.kernel)
    axes = known.axes if option is None else (option, *known.axes)
    command = _COMMANDS_1.get(result.kernel, "")
    return replace(result, declaration=replace(known, axes=axes, command=command))


_UPGRADES: dict[str, Callable[[dict[str, Any]], Run]] = {"hwdyno.run/1": _from_1}
"""The readers of older documents by schema: each makes one of today."""


def json_schema() -> dict[str, Any]:
    """The JSON Schema (draft 2020-12) of a Run's document, with the docstrings of the words."""
    schema = _adapter(Run).json_schema(mode="serialization")
    definitions: dict[str, Any] = schema.setdefault("$defs", {})
    for name, kind in _words().items():
        described = definitions.get(name) if name != "Run" else schema
        if described is not None:
            _describe(described, kind)
    head = {"$schema": "https://json-schema.org/draft/2020-12/schema", "$id": SCHEMA_ID, "title": "hwdyno Run"}
    return {**head, **{key: value for key, value in schema.items() if key != "title"}}


def _words() -> dict[str, type]:
    from hwdyno.model import machine, words

    known = vars(machine) | vars(words)
    return {name: kind for name, kind in known.items() if isinstance(kind, type) and is_dataclass(kind)}


def _describe(schema: dict[str, Any], kind: type) -> None:
    """Add each field's docstring (the string below it in the source) to the schema."""
    import ast
    import inspect
    import textwrap

    schema["description"] = inspect.getdoc(kind) or ""
    body = ast.parse(textwrap.dedent(inspect.getsource(kind))).body[0]
    assert isinstance(body, ast.ClassDef)
    for line, following in zip(body.body, body.body[1:], strict=False):
        if (
            isinstance(line, ast.AnnAssign)
            and isinstance(line.target, ast.Name)
            and isinstance(following, ast.Expr)
            and isinstance(following.value, ast.Constant)
        ):
            schema["properties"][line.target.id]["description"] = inspect.cleandoc(str(following.value.value))


def _one_line(error: object) -> str:
    return " ".join(str(error).split())[:200]
