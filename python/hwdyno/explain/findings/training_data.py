"""Rules on a loader's data set: files that are damaged or missing, and samples that were never read."""

from __future__ import annotations

from dataclasses import replace

from hwdyno.explain.findings.applies import Rule
from hwdyno.explain.findings.object_store import SLOW_DOWN
from hwdyno.explain.findings.rule import Case, Verdict, as_number, percent
from hwdyno.explain.findings.training import OF_LOADER
from hwdyno.model.units import format_bytes, format_count, plural

GRAVE = 0.01
"""The share of lost samples above which a point did not measure its data set."""
_MAX_NAMED = 3


def training_other_data(case: Case) -> Verdict | None:
    """Data of another workload in the folder: no figure is valid."""
    note = next((note for note in case.point.notes if note.code in {"other_workload", "no_step"}), None)
    if note is None or (note.code == "no_step" and case.point.faults):  # Then those say why.
        return None
    size = case.point.details.get("dataset_bytes")
    return Verdict(
        "invalid",
        f"This point does not count ({case.label}): {note.says}.",
        {"note": note.code, "dataset_bytes": size},
        "Use the folder with this workload's data, or more samples"
        + (f" (the data set has {format_bytes(size)})." if size else "."),
    )


def training_faults(case: Case) -> Verdict | None:
    """Files that are truncated, corrupt or missing, by name, with the number of lost samples."""
    faults = case.point.faults
    lost = as_number(case.point.details.get("lost_samples")) or 0.0
    requested = case.point.operations / max(1, case.point.repeats)
    share = lost / requested if requested else 1.0
    names = list(dict.fromkeys(fault.says for fault in faults))
    more = f"; {len(names) - _MAX_NAMED} more" if len(names) > _MAX_NAMED else ""
    cost = f"{format_count(lost)} of {format_count(requested)} samples ({percent(share)}) were not delivered whole"
    return Verdict(
        "invalid" if share > GRAVE else "warning",
        f"{f'Data loss: {cost}' if lost else 'Damaged files, but no sample was lost'} ({case.label}). "
        f"Files: {'; '.join(names[:_MAX_NAMED])}{more}.",
        {"faults": sum(fault.count for fault in faults), "lost_samples": lost, "share": share},
        _remedy(case),
        weight=share,
    )


def _remedy(case: Case) -> str:
    if any(SLOW_DOWN in fault.says for fault in case.point.faults):
        fewer = max(1, int(case.number("read_threads") or 1) // 2)
        return f"{case.on_faults}, or use fewer readers: {case.command(read_threads=fewer)}"
    if any(fault.operation == "get" for fault in case.point.faults):
        return f"{case.on_faults}, then: {case.command()}"
    if any(fault.operation == "read" and fault.errno for fault in case.point.faults):
        return "Check dmesg and the drive's health (smartctl -a): the storage returned read errors."
    return f"Remove the named files. Then generate them again: {case.command_with({'generate': None})}"


def training_uneven(case: Case) -> Verdict | None:
    """Accelerators with unequal numbers of samples end an epoch together, so some samples stay unread."""
    note = next((note for note in case.point.notes if note.code == "uneven_tails"), None)
    left, per_epoch = case.point.details.get("samples_left_over"), case.point.details.get("samples_per_epoch")
    if note is None or not isinstance(left, int | float):
        return None
    unread = "is" if left == 1 else "are"
    whole = left + (per_epoch if isinstance(per_epoch, int | float) else 0)
    return Verdict(
        "info",
        f"{left:.0f} of {plural(whole, 'sample')} {unread} never read ({case.label}). Reason: {note.says}.",
        {"samples_left_over": left, "samples_per_epoch": per_epoch},
        "Use a number of samples that accelerators x batch size divides" + _suggest_samples(case, whole),
        weight=left / whole if whole else 0.0,
    )


def _suggest_samples(case: Case, samples: float) -> str:
    """The command with fewer samples, which the accelerators share evenly; a full stop where so few cannot be."""
    step_samples = (case.number("batch_size") or 0) * (case.number("accelerators") or 1)
    even = int(samples // step_samples * step_samples) if step_samples else 0
    return f": {case.command_with({'samples': str(even)})}" if even else "."


_FAULTS, _UNEVEN = replace(OF_LOADER, needs=("faults",)), replace(OF_LOADER, needs=("notes.uneven_tails",))
RULES = (
    Rule("training_other_data", "point", training_other_data, OF_LOADER),
    Rule("training_faults", "point", training_faults, _FAULTS, degrades=True, instead_of=("faults",)),
    Rule("training_uneven", "point", training_uneven, _UNEVEN),
)
