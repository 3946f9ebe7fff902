"""Which resource a published table measures, by its columns, its title and the text around it."""

from __future__ import annotations

import re
from collections.abc import Sequence

from hwdyno.formats.languages import in_english
from hwdyno.formats.table_labels import TableRow
from hwdyno.formats.table_rows import Column
from hwdyno.model.quantities import PrintedNumber
from hwdyno.model.unit_readings import counted_in

_RESOURCE_WORDS = (
    (
        "training",
        r"mlperf|dlio|unet3d|resnet|cosmoflow|accelerator utili|training|"
        r"\bglobal_step\b|\blearning rate\b|\bgrad(?:ient)? norm\b|\bloss ?[=:] ?\d",
    ),
    (
        "inference",
        r"\bvllm\b|\bllama\.cpp\b|\bllms?\b|\bttft\b|\btpot\b|\btokens? ?(?:/|per) ?s|"
        r"\bbert\b|\btensorrt\b|\btrtexec\b|\bonnx(?:runtime)?\b|\byolov?\d*\b",
    ),
    (
        "gpu",
        r"\bgpus?\b|cuda|\b(?:nccl|rccl|oneccl)\b|"
        r"\ball[ -_]?(?:reduce|gather|to[ -_]?all)\b|\breduce[ -_]?scatter\b|nvlink|"
        r"nvbandwidth|host[ -]to[ -]device|\bh2d\b|\bhbm",
    ),
    (
        "network",
        r"network|iperf|netperf|\btcp\b|\budp\b|ethernet|\bgbe\b|rdma|infiniband|\bib_(?:write|read|send|atomic)_|\broce\b|\b[km]?pps\b|"
        r"(?:packet|message) (?:size|rate)|\bosu[ _](?:mpi|\w+_(?:bw|lat))|\bnic\b|loopback|\brtt\b|\bping\b|"
        r"\b[RrTt]x-[bp]ps\b|\bspeed ?test\b|\bwi-?fi\b|\bwireless\b|\b802\.11|\b(?:wireguard|openvpn)\b",
    ),
    ("memory", r"memory|\bdram\b|\bddr\d?|stream (?:triad|copy|bench)|\bmlc\b|\bnuma\b|\bdimm"),
    ("compute", r"linpack|\bhpl\b|flop|\bgemm\b"),
    ("storage", r"storage|disk|\bssd\b|nvme|\bfio\b|\bhdd\b|\bfile ?system|flash|iozone|\bdrives?\b"),
    ("compute", r"\bcpu\b"),
)
_RESOURCES = tuple((name, re.compile(pattern, re.I)) for name, pattern in _RESOURCE_WORDS)
_AMOUNT = re.compile(
    r"(?i)\b\d[\d.]{0,8} ?[GMT]i?B (?:of )?(?:memory|ram|ddr\d\w{0,2})\b|\bmemory ?[:=] ?\d[\d.]{0,8} ?[kGMT]i?B\b|"
    r"\bmemory (?:usage|used|limit|footprint)\b|\bcpu ?[:=]? ?\d[\d.]{0,8} ?%|\bcpu (?:usage|utili[sz]ation)\b"
)
"""How much of a machine there is or a program uses, which is not what was measured."""
UNKNOWN = "table"
"""What a table or a text measures that does not say so."""
RESOURCES = {name for name, _ in _RESOURCE_WORDS}
"""Names that a column of resources may have."""
_OF_MODELS = _RESOURCES[1][1]
_OF_SAMPLES = re.compile(r"\b(?:samples?|examples?|images?|imgs?|tokens?) ?(?:/|per) ?s", re.I)
_OF_TRAINING_ALONE = re.compile(r"(?i)\b(?:epochs?|accuracy|perplexity|loss|(?:pre-?)?train(?:ing|ed)?|fine-?tun\w+)\b")


_OF_ARITHMETIC = re.compile(r"(?i)\b[kmgtp]?i?(?:flop|iop)s?\b.*\b[kmgtp]?flops?\b")
"""Words of a table of arithmetic by precision, whose GIOPS are of integers."""


def _rate_words(columns: Sequence[Column], rows: Sequence[TableRow]) -> set[str]:
    """What its rates count, by their heads and by the units of their cells; an empty word for any operation."""
    rates = [column for column in columns if column.meaning.quantity == "iops"]
    units = [unit for column in rates for unit in column.meaning.units]
    units += [number.unit for column in rates for row in rows if (number := row.numbers.get(column.at)) and number.unit]
    return {counted_in(unit.name) for unit in units if unit.kind != "short"}


def _find_by_count(counted: set[str], names: set[str]) -> str:
    """The resource by what all of a table's rates count; empty where they leave it open."""
    if "step" in counted and counted <= {"step", "sample", "example", "image", "token"}:
        return "training"
    is_of_calls = counted == {"request"} and not names & {"bs", "bw", "iodepth", "rw"}
    return "network" if counted and (is_of_calls or counted == {"message"}) else ""


def _latencies(columns: Sequence[Column], rows: Sequence[TableRow]) -> list[PrintedNumber]:
    latencies = [column for column in columns if column.meaning.quantity == "lat"]
    return [number for column in latencies for row in rows if (number := row.numbers.get(column.at))]


SYSTEM_CALL_S, MEMORY_S = 1e-6, 1e-5
"""A system call alone takes a tenth of the first, so no storage answers in it; no load waits longer for the second."""


def _are_below(limit: float, columns: Sequence[Column], rows: Sequence[TableRow]) -> bool:
    """Whether there are latencies, and each is below a limit."""
    numbers = _latencies(columns, rows)
    return bool(numbers) and all(number.unit and number.value * number.unit.factor < limit for number in numbers)


BEGINNING = 1 << 16
"""Characters of a text in which its words are looked for."""


def find_by_words(text: str) -> str:
    """Which resource a text without columns is about, by the words at its beginning; ``UNKNOWN`` without any."""
    text = _AMOUNT.sub(" ", text[:BEGINNING])
    return next((name for name, pattern in _RESOURCES if pattern.search(text)), UNKNOWN)


def _has_bits(columns: Sequence[Column]) -> bool:
    """Whether a column's only unit is of bits."""
    units = [column.meaning.unit for column in columns]
    return any(unit is not None and unit.name.endswith("bit/s") for unit in units)


def find_resource(columns: Sequence[Column], rows: Sequence[TableRow], context: str, title: str) -> str:
    """Which resource a table measures: by its columns, and where they leave it open by its words."""
    names = {column.meaning.quantity for column in columns}
    given = {name for column in columns for name in column.meaning.given}
    words = in_english(" ".join([title, *(column.head for column in columns)]))
    values = " ".join(str(value) for row in rows[:50] for value in row.parameters.values() if isinstance(value, str))
    operations = {str(row.parameters.get("operation")) for row in rows} | {
        str(column.meaning.given.get("operation")) for column in columns
    }
    if "au" in names:
        return "training"
    if "busbw" in names:
        return "gpu"
    counted = _rate_words(columns, rows) if "iops" in names else set()
    if counted == {"token"} and not _OF_TRAINING_ALONE.search(words):
        return "inference"
    if resource := _find_by_count(counted, names):
        return "inference" if resource == "network" and _OF_MODELS.search(words) else resource
    if any(operation.startswith(("host-to", "device-to")) for operation in operations):
        return "gpu"
    if "delay" in names or "working_set" in names or operations & {"triad", "scale"}:
        return "memory"
    if "flops" in names and not names & {"bs", "rw", "iodepth"} and _OF_ARITHMETIC.search(words):
        return "gpu" if re.search(r"(?i)\bgpus?\b|cuda", words) else "compute"
    if names & {"iodepth", "numjobs"} and names & {"iops", "bw", "lat"}:
        return "storage"
    if names & {"streams", "loss", "jitter", "retransmits", "protocol"} or "protocol" in given or _has_bits(columns):
        return "network"
    if "iops" in names and re.search(r"(?i)iops", words) and names & {"bs", "bw"}:
        return "storage"
    if "iops" in names and _OF_SAMPLES.search(words) and re.search(r"(?i)\b(?:loss|epochs?|training)\b", words):
        return "training"
    texts = [_AMOUNT.sub(" ", of) for of in (words, values, context)]
    is_of_service = bool(counted) and counted <= {"query", "transaction"}
    found = (name for name, pattern in _RESOURCES if pattern.search(texts[0]))
    if name := next((name for name in found if name != "compute" or not is_of_service), ""):
        return name
    if "flops" in names:
        return "compute"
    if "iops" in names and _OF_SAMPLES.search(words):
        return "training"
    if names.isdisjoint({"iops", "bw"}) and _are_below(SYSTEM_CALL_S, columns, rows):
        return "memory"
    if is_of_service and not names & {"bs", "bw", "iodepth", "rw"}:
        return UNKNOWN
    is_of_blocks = "rw" in given or any("rw" in row.parameters for row in rows)
    if is_of_blocks or ("iops" in names and re.search(r"(?i)\bi/?ops\b|\bi/os?\b", words)):
        return "storage"
    for text in texts[1:]:
        for name, pattern in _RESOURCES:
            if pattern.search(text):
                return name
    times = [unit.name for column in columns for unit in column.meaning.units if column.meaning.quantity == "lat"]
    if "ns" in times and not any(number.value * 1e-9 > MEMORY_S for number in _latencies(columns, rows)):
        return "memory"
    return "storage" if "bs" in names else UNKNOWN
