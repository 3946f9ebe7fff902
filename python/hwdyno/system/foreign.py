"""Reads JSON, TOML, YAML and XML of others: numbers are finite and in range, texts are whole, or it is refused."""

from __future__ import annotations

import importlib
import json
import math
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import MISSING, dataclass, fields, is_dataclass
from functools import cache
from pathlib import Path
from typing import IO, Any, TypeVar

from hwdyno.model.units import LARGEST, as_number, is_number
from hwdyno.model.words import UserError
from hwdyno.system.suggestions import hint

DEEPEST = 64
"""Levels of a document; no tool nests deeper, and recursion over them stays far from Python's limit."""
LARGEST_FIGURE = 1e300
"""Largest figure computed from numbers in range: finite, with a margin for one more factor."""
MAX_COUNT = (1 << 63) - 1
"""Counts fit into 64 bits, as in Parquet and in the engine."""
PIECE_BYTES = 1 << 20

Made = TypeVar("Made")


def read_text(path: Path, max_bytes: int, kind: str = "", *, errors: str = "strict") -> str:
    """Read a text file of limited size; ``kind`` is what it should be, for messages. Raises ``UserError``."""
    data = read_bytes(path, max_bytes)
    try:
        return data.decode("utf-8", errors)
    except UnicodeDecodeError as error:
        why = f"byte {error.start} is {data[error.start]:#04x}, which is not UTF-8"
        raise UserError(f"{path} is not readable as {kind or 'text'}: {why}") from None


def read_bytes(path: Path, max_bytes: int) -> bytes:
    """Read a file of limited size. Raises ``UserError``."""
    try:
        with path.open("rb") as file:
            data = read_at_most(file, max_bytes + 1)
    except (OSError, ValueError) as error:  # ValueError: a NUL in the name
        raise UserError(f"cannot read {path}: {(getattr(error, 'strerror', None) or str(error)).lower()}") from None
    if len(data) > max_bytes:
        raise UserError(f"{path} is too large for its kind ({max_bytes >> 10} KiB)")
    return data


def read_at_most(file: IO[bytes], max_bytes: int) -> bytes:
    """The bytes of a file, piece by piece: where Python reads them at once, it allocates ``max_bytes`` first."""
    pieces, left = [], max_bytes
    while left > 0 and (piece := file.read(min(left, PIECE_BYTES))):
        pieces.append(piece)
        left -= len(piece)
    return b"".join(pieces)


def json_at(text: str | bytes, start: int = 0) -> Any:
    """The JSON value that begins at ``start``; any text may follow it; none if it is incomplete."""
    try:
        whole = text if isinstance(text, str) else text.decode()
        return json.JSONDecoder().raw_decode(whole, start)[0]
    except (ValueError, RecursionError):
        return None


def parse_json(text: str | bytes, name: str, *, is_ours: bool = False) -> Any:
    """A JSON document; a native one may have any text and any finite number. Raises ``UserError`` in one line."""
    try:
        document = json.loads(text)
    except (ValueError, RecursionError) as error:
        why = str(error) if isinstance(error, ValueError) else "it is nested too deep"
        raise UserError(f"{name} is not JSON ({why}); it may be cut off, or another kind of file") from None
    return check_document(document, name, LARGEST_FIGURE if is_ours else LARGEST, any_text=is_ours)


def parse_xml(text: str, name: str) -> Any:
    """The root element of an XML document that declares no entities. Raises ``UserError`` in one line."""
    from xml.etree import ElementTree

    if "<!DOCTYPE" in text or "<!ENTITY" in text:
        raise UserError(f"{name} declares entities, which can be endless; remove its DOCTYPE")
    try:
        root = ElementTree.fromstring(text)
    except (ElementTree.ParseError, ValueError, RecursionError) as error:
        raise UserError(f"{name} is not readable XML ({error}); it may be cut off, or another kind of file") from None
    level = [root]
    for _ in range(DEEPEST):
        level = [child for parent in level for child in parent]
        if not level:
            return root
    raise UserError(f"{name} is nested deeper than {DEEPEST} levels")


def parse_toml(text: str, name: str) -> dict[str, Any]:
    """A TOML document. Raises ``UserError`` in one line."""
    tomllib = importlib.import_module("tomllib" if sys.version_info >= (3, 11) else "tomli")
    try:
        document: dict[str, Any] = tomllib.loads(text)
    except RecursionError:
        raise UserError(f"{name} is nested deeper than {DEEPEST} levels") from None
    except ValueError as error:
        raise UserError(f"{name} is not a readable TOML file: {error}") from None
    return check_document(document, name)


def parse_yaml(text: str, name: str) -> Any:
    """A YAML document of plain values. Raises ``UserError`` in one line."""
    import yaml

    try:
        document = yaml.load(text, _yaml_loader())
    # A loader of PyYAML raises these for an escape or a version that is out of range.
    except (yaml.YAMLError, ValueError, OverflowError) as error:
        raise UserError(f"{name} is not readable YAML: {error}") from None
    return check_document(document, name)


@cache
def _yaml_loader() -> Any:
    """A loader of mappings, lists, texts, numbers, flags and null, without aliases of whole mappings and lists.

    PyYAML's safe loader raises errors of any type for a value that contradicts its tag, and expands aliases, which can
    be endless or larger than memory.
    """
    import yaml

    class BoundedYamlLoader(yaml.SafeLoader):
        depth = 0

        def compose_node(self, parent: Any, index: Any) -> Any:
            event = self.peek_event()  # type: ignore[no-untyped-call]
            known = self.anchors.get(event.anchor) if isinstance(event, yaml.AliasEvent) else None
            if known is not None and not isinstance(known, yaml.ScalarNode):
                raise yaml.YAMLError(f"*{event.anchor} is an alias of more than one value; write it out")
            self.depth += 1
            if self.depth > DEEPEST:
                raise yaml.YAMLError(f"it has more than {DEEPEST} levels")
            node = super().compose_node(parent, index)
            self.depth -= 1
            return node

    def scalar(loader: Any, node: Any) -> Any:
        kind = node.tag.rpartition(":")[2]
        try:
            return getattr(yaml.SafeLoader, f"construct_yaml_{kind}")(loader, node)
        except (ValueError, LookupError):
            raise yaml.constructor.ConstructorError(
                None, None, f"this is not of type {kind}", node.start_mark
            ) from None

    constructors: dict[str, Any] = dict.fromkeys(("bool", "int", "float"), scalar)
    constructors["timestamp"] = yaml.SafeLoader.construct_yaml_str
    constructors |= dict.fromkeys(("binary", "set", "omap", "pairs"), yaml.SafeLoader.construct_undefined)
    for kind, construct in constructors.items():
        BoundedYamlLoader.add_constructor(f"tag:yaml.org,2002:{kind}", construct)
    return BoundedYamlLoader


def check_document(document: Made, name: str, most: float = LARGEST, *, any_text: bool = False) -> Made:
    """The document, where a Run can hold what is in it: JSON's values, dates, or the types of a Run.

    Raises ``UserError`` for a number that is not finite or beyond ``most``, for half a character or a NUL in a text
    (unless ``any_text``), and for more than ``DEEPEST`` levels.
    """
    level: list[Any] = [document]
    for _ in range(DEEPEST):
        inner: list[Any] = []
        for value in level:
            if isinstance(value, str):
                if not any_text and ("\0" in value or not (value.isascii() or _is_whole(value))):
                    raise UserError(f"{name} has invalid text: {_short(value)}")
            elif isinstance(value, dict):
                if not all(key.isascii() or _is_whole(key) for key in value if isinstance(key, str)):
                    raise UserError(f"{name} has a key that is not text")
                inner += value.values()
                inner += () if any_text else value
            elif isinstance(value, list | tuple):
                inner += () if _are_figures(value, most) else value
            elif is_number(value):
                if not -most <= value <= most:
                    raise UserError(f"{name} has a number out of range: {_short(value)}")
            elif is_dataclass(value) and not isinstance(value, type):
                inner += [getattr(value, field.name) for field in fields(value)]
        level = inner
        if not level:
            return document
    raise UserError(f"{name} is nested deeper than {DEEPEST} levels")


def _are_figures(values: Sequence[Any], most: float) -> bool:
    """Whether a list has nothing but numbers within ``most``, found without a look at each of them."""
    try:
        # What is not a number has no sum, and one that is none makes the sum none.
        return -most <= min(values) and max(values) <= most and math.isfinite(sum(values))
    except (TypeError, ValueError, OverflowError):
        return False


def _is_whole(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _short(value: object) -> str:
    if isinstance(value, int) and abs(value) > LARGEST:
        return f"a whole number of {value.bit_length()} bits"
    return json.dumps(value) if isinstance(value, float) else ascii(value)[:60]


@dataclass(frozen=True)
class Table:
    """A table of a document that ``check_document`` passed; values are taken by type. Each raises ``UserError``."""

    values: Mapping[str, Any]
    name: str
    """Name of the file, for messages."""

    @classmethod
    def from_value(cls, value: Any, name: str) -> Table:
        """The value as a table."""
        if not isinstance(value, dict):
            raise UserError(f"{name} needs a table, and has:  {_short(value)}")
        return cls(value, name)

    def __contains__(self, key: str) -> bool:
        return self.values.get(key) is not None

    def _value(self, key: str) -> Any:
        if key not in self:
            raise UserError(f"{self.name} has no '{key}'")
        return self.values[key]

    def _wrong(self, key: str, wanted: str) -> UserError:
        return UserError(f"{self.name} has {key} = {_short(self.values.get(key))}, which must be {wanted}")

    def number(self, key: str, least: float = 0.0, most: float = LARGEST) -> float:
        """A finite number within bounds."""
        value = self._value(key)
        if not is_number(value) or not least <= value <= most:
            raise self._wrong(key, f"a number from {least:g} to {most:g}")
        return as_number(value) or 0.0

    def count(self, key: str, least: int = 0) -> int:
        """A whole number."""
        value = self._value(key)
        if not is_number(value) or value != math.floor(value) or not least <= value <= MAX_COUNT:
            raise self._wrong(key, f"a whole number of {least} or more")
        return int(value)

    def numbers(self, key: str) -> list[float]:
        """A list of numbers of 0 or more; one alone is a list too."""
        value = self._value(key)
        found = value if isinstance(value, list) else [value]
        if not all(is_number(number) and number >= 0 for number in found):
            raise self._wrong(key, "numbers of 0 or more")
        return [as_number(number) or 0.0 for number in found]

    def text(self, key: str) -> str:
        """A text."""
        value = self._value(key)
        if not isinstance(value, str):
            raise self._wrong(key, "a text")
        return value

    def table(self, key: str) -> Table:
        """A table within it."""
        value = self._value(key)
        if not isinstance(value, dict):
            raise self._wrong(key, "a table")
        return Table(value, self.name)

    def tables(self) -> dict[str, Table]:
        """All tables within it, by their names."""
        return {key: self.table(key) for key in self.values}

    def to_dataclass(self, kind: type[Made], least: int = 0, **given: Any) -> Made:
        """A frozen dataclass of texts, whole numbers and numbers, whose fields are its keys or ``given``."""
        takers: dict[str, Callable[[str], Any]] = {
            "str": self.text,
            "int": lambda key: self.count(key, least),
            "float": self.number,
        }
        known = {field.name: field for field in fields(kind)}  # type: ignore[arg-type]
        for key in self.values:
            if key not in known or key in given:
                raise UserError(f"{self.name}: unknown key '{key}'; {hint(key, known)}")
        wanted = [field for field in known.values() if field.name not in given]
        wanted = [field for field in wanted if field.name in self or field.default is MISSING]
        values = {field.name: takers[str(field.type)](field.name) for field in wanted}
        return kind(**values, **given)
