"""A load, and the parameters of a point, in the field's words."""

from __future__ import annotations

from collections.abc import Mapping

from hwdyno.model.axes import VALUE_NAMES, is_mixed, splits
from hwdyno.model.units import as_number as as_number
from hwdyno.model.units import format_load, format_size, plural
from hwdyno.model.words import Axis, Declaration, Scalar


def load_words(axis: Axis, load: float) -> str:
    """A load with its axis: ``iodepth 32``, ``4 jobs``, ``16 KiB blocks``."""
    return load_in_words(axis, load) or f"{axis.name} {format_load(load)}"


def load_in_words(axis: Axis, load: float, *, in_list: bool = False) -> str:
    """A load in words, in a sentence or ``in_list`` with others; empty for an axis that has only its name."""
    if axis.role == "size":
        return f"{format_size(load)} {axis.words.removesuffix(' size')}s"
    if axis.role == "delay":
        many = f"{format_load(load)} {axis.unit}".rstrip()
        words = f"{axis.words} {many}" if in_list else f"a {axis.words} of {many}"
        return words if load else f"no {axis.words}"
    if axis.unit == "B":
        return f"{axis.words} {format_size(load)}"
    if axis.role == "concurrency" and axis.words.endswith("s"):
        return plural(load, axis.words.removesuffix("s"))
    if axis.role == "concurrency" and axis.words.endswith("in flight"):
        return f"{format_load(load)} {axis.words.replace('requests', 'request') if load == 1 else axis.words}"
    return ""


def format_label(
    parameters: Mapping[str, Scalar], kernel: Declaration, left_out: set[str] | frozenset[str] = frozenset()
) -> str:
    """Parameters in the field's words, with the access pattern, the operation and the block size first."""
    first: list[str] = []
    shown = {
        name: value
        for name, value in parameters.items()
        if value is not None and not str(value).startswith("/") and name != "path" and not kernel.axis(name).seeds
    }
    for axis in splits(kernel.axes):
        word, share = shown.pop(axis.name, None), shown.pop(axis.split, None)
        if word is not None:
            mixed = share is not None and is_mixed(axis, {axis.name: word})
            first.append(f"{word} {share}%" if mixed else str(word))
        elif share is not None:
            first.append(f"{share}% reads")
    block = as_number(shown.pop("bs", None))
    if block is not None:
        first.append(format_size(block))
    done = shown.pop("operation", None)
    others = []
    for name, value in shown.items():
        axis, number = kernel.axis(name), as_number(value)
        if name in left_out:
            continue
        known = number is not None and (axis.role != "label" or axis.unit)
        words = load_in_words(axis, number, in_list=True) if known and number is not None else ""
        others.append(words or _name_value(axis, format_load(number) if known and number is not None else value))
    if done is not None and "operation" not in left_out:
        first.append(VALUE_NAMES.get(str(done), str(done)))
        if others and ("=" in others[0] or others[0] in VALUE_NAMES.values()):
            # ``mix 1:0``, where the operation is called as the axis that tells more of it.
            first.append(others.pop(0).removeprefix(f"{done}="))
    return ", ".join(filter(None, [" ".join(first), *others]))


def _name_value(axis: Axis, value: Scalar) -> str:
    """A value that a word alone names, or that its axis's name goes before: ``FP64``, ``no zero copy``, ``n=2000``."""
    name = axis.name.replace("_", " ")
    if isinstance(value, bool):
        return name if value else f"no {name}"
    return VALUE_NAMES.get(str(value), f"{axis.name}={value}")
