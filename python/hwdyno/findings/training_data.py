"""Rules on the data set that a loader was given: files that are damaged or missing, and samples that nobody got."""

from __future__ import annotations

from dataclasses import replace

from hwdyno.findings.applies import Rule
from hwdyno.findings.rule import Case, Verdict, as_number, percent
from hwdyno.findings.training import OF_LOADER
from hwdyno.units import format_bytes, format_count
from hwdyno.words import Fault

GRAVE = 0.01
"""A share of samples beyond which a point measured another data set than it says."""
_MOST_NAMED = 3


def training_other_data(case: Case) -> Verdict | None:
    """Data of another workload in the folder makes every figure somebody else's."""
    note = next((note for note in case.point.notes if note.code in {"other_workload", "no_step"}), None)
    if note is None:
        return None
    size = case.point.details.get("dataset_bytes")
    return Verdict(
        "invalid",
        f"{case.label}: {note.says}, so this point does not count.",
        {"note": note.code, "dataset_bytes": size},
        "Give the folder of this workload's data, or more --samples"
        + (f" (there are {format_bytes(size)})." if size else "."),
    )


def training_faults(case: Case) -> Verdict | None:
    """Files that are truncated, corrupt or missing, each by its name, with the samples that they cost."""
    faults = case.point.faults
    lost = as_number(case.point.details.get("lost_samples")) or 0.0
    requested = case.point.operations / max(1, case.point.repeats)
    share = lost / requested if requested else 1.0
    names = list(dict.fromkeys(fault.says for fault in faults))
    rest = f"; and {len(names) - _MOST_NAMED} more" if len(names) > _MOST_NAMED else ""
    cost = f"{format_count(lost)} of {format_count(requested)} samples ({percent(share)}) were not delivered whole"
    return Verdict(
        "invalid" if share > GRAVE else "warning",
        f"{case.label}: {'; '.join(names[:_MOST_NAMED])}{rest}: {cost if lost else 'no sample was lost by it'}.",
        {"faults": sum(fault.count for fault in faults), "lost_samples": lost, "share": share},
        _remedy(faults),
        weight=share,
    )


def _remedy(faults: tuple[Fault, ...]) -> str:
    if any(fault.operation == "read" and fault.errno for fault in faults):
        return "The storage refused to read: look at dmesg and at the drive's health (smartctl -a)."
    return "Remove what is named, and write it again: the same command with --generate keeps every file that is whole."


def training_uneven(case: Case) -> Verdict | None:
    """Accelerators with unlike numbers of samples end an epoch together, and the longer shares' tails are not read."""
    note = next((note for note in case.point.notes if note.code == "uneven_tails"), None)
    left, each = case.point.details.get("samples_left_over"), case.point.details.get("samples_per_epoch")
    if note is None or not isinstance(left, int | float):
        return None
    whole = left + (each if isinstance(each, int | float) else 0)
    return Verdict(
        "info",
        f"{case.label}: {note.says}; {left:.0f} of {whole:.0f} samples are read by nobody.",
        {"samples_left_over": left, "samples_per_epoch": each},
        "Give --samples that the accelerators and their batches divide.",
        weight=left / whole if whole else 0.0,
    )


_FAULTS, _UNEVEN = replace(OF_LOADER, needs=("faults",)), replace(OF_LOADER, needs=("notes.uneven_tails",))
RULES = (
    Rule("training_other_data", "point", training_other_data, OF_LOADER),
    Rule("training_faults", "point", training_faults, _FAULTS, degrades=True, instead_of=("faults",)),
    Rule("training_uneven", "point", training_uneven, _UNEVEN),
)
