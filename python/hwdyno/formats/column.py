"""What a column of a published table means, by the words and the unit in its head; and what its cells say."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from functools import lru_cache

from hwdyno.formats.languages import in_english
from hwdyno.model.unit_readings import PERCENTILE, Unit, unit_readings
from hwdyno.model.units import BINARY, DECIMAL
from hwdyno.model.words import Parameters


@dataclass(frozen=True, slots=True)
class Meaning:
    """What a column holds."""

    quantity: str
    """A figure (``bw``, ``iops``, ``lat`` …), a parameter (``bs``, ``iodepth`` …), or ``label``."""
    units: tuple[Unit, ...] = ()
    """More than one where its head can be read in more than one way; none where it names no unit."""
    statistic: str = ""
    """``min``, ``mean``, ``max``, ``stdev``, or a percentile such as ``p99``; empty where the head names none."""
    given: Parameters = field(default_factory=dict)
    """Parameters that the head states for all of its cells."""
    remainder: str = ""
    """The words of the head that say nothing else."""

    @property
    def unit(self) -> Unit | None:
        """Its unit, where there is exactly one reading."""
        return self.units[0] if len(self.units) == 1 else None


FIGURES: dict[str, str] = {
    "bw": "bytes/s", "busbw": "bytes/s", "iops": "operations/s", "lat": "s", "flops": "FLOP/s", "au": "1", "loss": "1",
    "jitter": "s", "retransmits": "", "time": "s", "data": "bytes", "share": "1", "ceiling": "", "speedup": "",
    "cpu": "1", "value": "",
}  # fmt: skip
"""Each figure with the kind of its unit; empty where it has none, or any."""
SIZES = ("bs", "size", "working_set")
COUNTS = (
    "iodepth",
    "numjobs",
    "threads",
    "streams",
    "n",
    "accelerators",
    "samples",
    "nodes",
    "delay",
    "lda",
    "epochs",
    "rate",
)
PARAMETERS = ("rw", "read_percent", "write_percent", "direct", "operation", "protocol", *SIZES, *COUNTS)

_ACCELERATORS = (
    r"(?:(?:#|num(?:ber of)?|n) ?)(?:(?:simulated|emulated|nvidia|[vabh]\d00) )*(?:accelerators?|gpus?)|"
    r"(?:(?:simulated|emulated|nvidia|[vabh]\d00) )*(?:accelerators|gpus)(?: (?:[vabh]\d00|supported))?"
)
_WORDS: tuple[tuple[str, str], ...] = (
    (
        "read_percent",
        r"(?:rwmix ?)?reads? ?(?:percent(?:age)?|share|ratio|mix|intensity)|rwmixread|(?:percent|share of) reads?",
    ),
    ("write_percent", r"(?:rwmix ?)?writes? ?(?:percent(?:age)?|share|ratio|mix)|rwmixwrite"),
    (
        "rate",
        r"(?:target|offered|requested|configured|nominal)(?: request)?(?: rate| load)?",
    ),
    (
        "bs",
        r"bs|block|#bytes|(?:i/?o|frame|access|data access|request|req|xfer|transfer|message|msg|packet|"
        r"payload|chunk|record|rec|buffer|block) ?(?:size|len|length)|blocksize|blksize|reclen|"
        r"datagram(?: size)?",
    ),
    (
        "iodepth",
        r"qd|(?:i/?o )?(?:queue ?)?depth|iodepth|queue ?(?:depth|size|length)|outstanding(?: i/?os?)?|in ?flight",
    ),
    ("numjobs", r"num ?jobs|jobs?|# ?jobs|workers?|processes|procs|ranks?|tasks?|np|clients?|num ?procs"),
    ("threads", r"(?:num(?:ber)? ?(?:of )?)?(?:cpu |omp )?threads?|# ?(?:of )?threads|(?:# ?|num(?:ber of)? )?cores"),
    ("streams", r"(?:parallel |tcp |number of |num )?(?:streams?|connections?|flows?)|parallel"),
    ("size", r"(?:file|test|data ?set|total) ?size|size of (?:the )?file|size"),
    ("working_set", r"working ?set(?: size)?|footprint|wss|array size|buffer"),
    ("delay", r"(?:inject(?:ed|ion)?|load) ?delay(?: cycles)?|delay(?: cycles)?|inject"),
    ("n", r"n|(?:problem|matrix) ?size(?: n)?|matrix|(?:number of )?equations|order|dimension"),
    ("lda", r"lda|leading dimension"),
    ("accelerators", _ACCELERATORS),
    ("samples", r"(?:num |number of |# ?)?samples"),
    ("epochs", r"(?:number of )?epochs"),
    ("nodes", r"(?:(?:#|num(?:ber of)?) ?)?(?:client |compute |host )?(?:nodes|hosts)"),
    ("direct", r"direct(?: i/?o)?|o_direct|buffered"),
    ("protocol", r"protocol|proto|transport"),
    (
        "rw",
        r"rw|readwrite|(?:i/?o|access|rw) ?(?:pattern|type|mode)|pattern|test ?(?:type|description|"
        r"name|case)?|mode|workload pattern|read/write|i/?o",
    ),
    ("operation", r"kernel|function|operation|op|direction|copy type|transfer type"),
)
_FIGURE_WORDS: tuple[tuple[str, str], ...] = (
    ("share", r"(?:vs\.?|versus|against) (?:theoretical(?: peak)?|theory|peak|ceiling|rated|spec|line rate)"),
    ("ceiling", r"theoretical(?: peak)?|theory|ceiling|r?peak (?:theoretical|possible)|rpeak|line "
r"rate|(?:link|bus) (?:rate|speed|bandwidth|limit|capacity)|rated|nominal|hardware "
r"(?:limit|peak)|spec(?:ification)?(?: max)?|hw peak|limit|roofline|peak (?=flop|perf)"),
    ("au", r"au|(?:accelerator|gpu) utili[sz]ation"),
    ("share", r"efficiency|eff|utili[sz]ation|util|share(?: of (?:peak|ceiling|link|line rate))?|"
r"of (?:peak|ceiling|theoretical|link|line rate|max)|(?:hit|cache hit) ?(?:rate|ratio)"
r"|busy|percentage of (?:peak|ceiling)|fraction"),
    ("busbw", r"bus ?(?:bw|band ?width)"),
    ("cpu", r"(?:cpu|usr|sys|system|user)(?: ?(?:usage|util(?:i[sz]ation)?|load|time))?"),
    ("loss", r"(?:packet |datagram )?loss(?: rate)?|(?:lost|dropped|drops?) ?(?:percent|%|share|rate)"),
    ("jitter", r"jitter"),
    ("retransmits", r"retr(?:ansmit(?:s|ted)?|ansmissions|ies|y)?|retransmits"),
    ("speedup", r"speed-?up|scaling|ratio|relative"),
    ("lat", r"latenc(?:y|ies)|[cs]?lat|rtt|round[- ]?trip(?: time)?|response ?time|await|ping|"
r"completion time|access time|time/op"),
    ("iops", r"iops|i/?os|ops|operations|op rate|tps|transactions|requests|queries|messages|msgs?|"
r"packets|datagrams|rand (?:read|write) 4k iops|samples per second|message rate"),
    ("flops", r"g?flops?|t?flops?|rmax|performance|perf|gflop/s"),
    ("bw", r"(?:alg(?:o(?:rithm)?)? ?)?(?:bw|band ?width)|"
r"through ?put|(?:transfer|data|bit) ?rate|bitrate|speed|good ?put|(?<!learning )(?<!error )rate|transfer speed"),
    ("time", r"(?:elapsed|run|wall|total|execution|solve|copy)? ?time|duration|runtime|elapsed|seconds"),
    ("data", r"data|transferred|transfer|(?:total )?(?:bytes|volume|amount)(?: (?:moved|transferred|"
r"read|written))?|size copied|data (?:size|volume|moved|transferred|read|written)|"
r"bytes"),
    ("value", r"(?:(?:example|sample) )?value|result|score|measurement|measured|figure"),
)  # fmt: skip
_AS_WORD = {name: re.compile(pattern) for name, pattern in _WORDS}
_AS_FIGURE = [(name, re.compile(rf"(?<![\w/])(?:{pattern})(?![\w/])")) for name, pattern in _FIGURE_WORDS]
_LABELS = re.compile(
    r"device|drive|disk|ssd|model|product|interface|link|bus|gpu|card|accelerator|simulated gpu|system|machine|host|"
    r"platform|storage(?: type| class)?|study|path|source|why|notes?|comments?|explanation|"
    r"remarks?|name|job(?: ?name)?|"
    r"file ?system|fs|engine|ioengine|workload|model|config(?:uration)?|scenario|cpu|processor|tool|vendor|date|url|"
    r"capacity|category|type|network|nic|adapter|unit|claim|resource|correct|status|pass(?:ed)?|verdict|result|check"
)
_STATISTICS: tuple[tuple[str, str], ...] = (
    ("stdev", r"std ?dev|st ?dev|std|standard deviation|sd|bw dev|mdev|var(?:iance)?|±"),
    ("min", r"min(?:imum)?|lowest|best case"),
    ("max", r"max(?:imum|imal)?|highest|worst(?: case)?|best|peak"),
    ("p50", r"median|med|t typical"),
    ("mean", r"avg|average|mean|typical"),
)
_AS_STATISTIC = [(name, re.compile(rf"(?<![\w])(?:{pattern})(?![\w])")) for name, pattern in _STATISTICS]
_SNAKE = re.compile(
    r"(?i)(?<![a-z])([kmgt]?i?b(?:ytes?|its?)?|[kmgt]?ops|i?ops|[kmgt]bit|samples?)[_ ](?:per[_ ])?"
    r"(s|sec|seconds?)(?![a-z])"
)


_THOUSANDS_OF = re.compile(r"[(\[]\s*(k|m|x ?1000|thousands?|millions?)\s*[)\]]", re.I)
_OF_TIME = re.compile(r"time|duration|elapsed|length|took")
_CHANGE = re.compile(
    r"(?i)\b(?:improvement|increase|decrease|regression|change|delta|gain)(?: percentage| in %| ?\(%\))?$"
)
"""Ends the head of what is a result's change, and no result."""
_OF_ANOTHER = re.compile(
    r"\b(?:vs|versus|against|relative to|over)\b.*\b(?:baseline|base|\d|stock|default|single)|\bbaseline\b"
)
"""Words for a share of another result, which may be above 1."""
_UNIT_COLUMN = re.compile(r"(?i)(?:.*[ _])?units?")


@lru_cache(4096)
def parse_head(head: str) -> Meaning:
    """What a column with this head holds."""
    if _UNIT_COLUMN.fullmatch(head.strip()) or _CHANGE.search(head):
        return Meaning("label")
    # What perftest calls MB is of 2^20 bytes.
    head = head.replace("[MB/sec]", "[MiB/s]")
    text = _SNAKE.sub(lambda m: f"{m[1]}/s", in_english(head).replace("µ", "u").replace("μ", "u"))
    units, (start, end) = unit_readings(text)
    if units and text[start:end].lower() == "min" and not _OF_TIME.search(text.lower()):
        units, start, end = (), 0, 0  # The least, beside (max) and (avg).
    thousands = _THOUSANDS_OF.search(text)
    if thousands is not None and re.search(r"(?i)iops|ops\b|operations", text):
        factor = DECIMAL["m" if thousands[1][:1].lower() == "m" else "k"]
        units, (start, end) = (Unit("operations/s", factor, f"{thousands[1]} IOPS"),), thousands.span()
    remainder = f"{text[:start]} {text[end:]}".replace("_", " ").lower() if units else text.replace("_", " ").lower()
    remainder = " ".join(re.sub(r"[()\[\]{}:,;=]|(?<![\w])/|/(?![\w])", " ", remainder).split())
    for name, pattern in _AS_WORD.items():
        of_share = name in {"read_percent", "write_percent"} and units and units[0].kind == "1"
        of_rate = name == "rate" and bool(units) and units[0].kind == "operations/s"
        plain = name != "rate" and (not units or units[0].kind in {"bytes", "cycles"})
        if (of_share or of_rate or plain) and pattern.fullmatch(remainder):
            return Meaning(name, units)
    if units and units[0].kind == "1" and re.fullmatch(r"reads?|read mix|r", remainder):
        return Meaning("read_percent", units)
    if units and units[0].kind == "FLOP/s" and re.fullmatch(r"(?:cpu |gpu )?peak(?: performance| rate)?", remainder):
        return Meaning("ceiling", units)
    statistic, remainder = _statistic(remainder)
    given, remainder = given_in(remainder)
    figure, remainder = _figure(remainder, units)
    if figure is None:
        if _LABELS.fullmatch(remainder) or not units:
            return Meaning("label", (), "", {}, remainder)
        figure = {
            "bytes/s": "bw",
            "operations/s": "iops",
            "FLOP/s": "flops",
            "s": "lat" if units[0].factor < 1 else "time",
        }.get(units[0].kind)
        if figure is None:
            return Meaning("label" if units[0].kind != "1" else "percent", units, statistic, given, remainder)
    if figure == "ceiling" and units and units[0].kind == "1":
        figure = "share"
    if figure == "share" and _OF_ANOTHER.search(remainder):
        figure = "speedup"
    kind = FIGURES[figure]
    if units and kind and units[0].kind != kind:
        by_unit = {
            "bytes/s": "bw",
            "operations/s": "iops",
            "FLOP/s": "flops",
            "s": "lat" if figure == "lat" else "time",
        }
        other = by_unit.get(units[0].kind)
        if other is None:
            return Meaning("percent" if units[0].kind == "1" else "label", units, statistic, given, remainder)
        figure = "share" if figure == "share" else other
    words = [word for word in remainder.split() if word not in _EMPTY]
    return Meaning(figure, units, statistic, given, " ".join(words))


_EMPTY = {
    "of",
    "the",
    "in",
    "per",
    "at",
    "for",
    "with",
    "and",
    "to",
    "a",
    "total",
    "random",
    "4k",
    "-",
    "|",
    "best",
    "rate",
    "single",
    "aggregate",
    "agg",
    "combined",
    "overall",
    "io",
    "i/o",
    "memory",
    "network",
    "disk",
}


_NO_RATE = re.compile(r"\btime\b|/byte\b|\bprecision\b|\bper (?!s)[a-z]")
"""Words of a head that name operations and hold no rate of them: ``ops/byte``, ``double precision ops``."""


def _statistic(text: str) -> tuple[str, str]:
    if match := PERCENTILE.search(text):
        digits = match[1] or match[3] or match[5]
        more = (match[2] or match[4] or match[6] or "").rstrip("0")
        return f"p{digits}{more}", f"{text[: match.start()]} {text[match.end() :]}".strip()
    for name, pattern in _AS_STATISTIC:
        if match := pattern.search(text):
            if name == "max" and match[0] == "peak" and re.search(r"theor|flop|perf|% of|of peak|link", text):
                continue
            return name, " ".join(f"{text[: match.start()]} {text[match.end() :]}".split())
    return "", text


def _figure(text: str, units: tuple[Unit, ...]) -> tuple[str | None, str]:
    for name, pattern in _AS_FIGURE:
        match = pattern.search(text)
        if match is None or (name in {"time", "value", "data", "cpu"} and match[0] != text.strip() and name != "time"):
            continue
        if name == "cpu" and not (units and units[0].kind == "1"):
            continue
        if name == "speedup" and units and units[0].kind != "1":
            continue
        if name == "iops" and not units and _NO_RATE.search(text):
            continue
        remainder = " ".join(f"{text[: match.start()]} {text[match.end() :]}".split())
        return name, remainder
    return None, text


# --- parameters in words

_GIVEN: tuple[tuple[re.Pattern[str], str], ...] = (
    (
        re.compile(
            r"\bq(?:d|ueue ?depth)? ?= ?(\d{1,5})\b|\bqd ?(\d{1,5})\b|\bq(\d{1,5})(?=t\d|\b)|\biodepth ?=? ?(\d{1,5})\b"
        ),
        "iodepth",
    ),
    (re.compile(r"\b(\d{1,4}) ?threads?\b|\bthreads? ?=? ?(\d{1,4})\b"), "threads"),
    (re.compile(r"\b(\d{1,4}) ?jobs\b|\b(1) job\b(?! id)|\b(\d{1,4})-?job\b|\bnumjobs ?=? ?(\d{1,4})\b"), "numjobs"),
    (re.compile(r"\b(\d{1,4}) ?(?:streams?|connections?)\b|\b-?p ?(\d{1,4}) streams?\b"), "streams"),
    (re.compile(r"\b(\d{1,4}) ?gpus?\b"), "accelerators"),
)
_THREADS_OF_QUEUE = re.compile(r"(?:\b|(?<=\d))t(\d{1,4})\b")
"""``T8`` of ``Q32T8``; alone it is a GPU's name, or anything else."""
_BLOCK = re.compile(
    r"(?:\b|(?<=rnd)|(?<=seq)|(?<=rand))(?<![\d.,/])(?<!iops[ :=])(?<!iops: )"
    r"(\d{1,7}(?:\.\d)?) ?([kmg])(i?)b?\b(?! ?(?:/ ?[s\d]|per s))"
    r"|(?<![\d.,])\b(\d{1,7}) ?(?:b|bytes)\b(?! ?(?:/ ?s|per s))"
)
_OF_PICTURES = re.compile(r"[→×]|\d{3,4}p\b")
"""Signs of a picture's size, whose 4K is no block."""
_OF_BLOCKS = re.compile(r"\b(?:bs|blocks?|block ?size|transfers?|xfer|chunks?)\b")
"""Words without which GiB are rather a file's."""
_PATTERNS: tuple[tuple[re.Pattern[str], str], ...] = (
    (re.compile(r"\br(?:a?nd)(?:om)?[ _-]*(?:read|rd)s?\b|\breads? random\b"), "randread"),
    (re.compile(r"\br(?:a?nd)(?:om)?[ _-]*(?:writes?|wr)\b"), "randwrite"),
    (re.compile(r"\brandrw\b|\brand(?:om)?[ _-]?(?:rw|read ?/ ?write|mix(?:ed)?)\b"), "randrw"),
    (re.compile(r"\bseq(?:uential)?[ _-]?(?:reads?|rd)\b|\breads? seq(?:uential)?\b"), "read"),
    (re.compile(r"\bseq(?:uential)?[ _-]?(?:writes?|wr)\b|\bwrites? seq(?:uential)?\b"), "write"),
    (re.compile(r"\bread ?[/-] ?writes?\b|\bmixed\b|\brw\b"), "rw"),
    (re.compile(r"\breads?\b|\brd\b"), "read"),
    (re.compile(r"\bwrites?\b|\bwr\b"), "write"),
)
# Tools that move files use the same two words.
_NO_FILES = r"(?!.{0,20}\b(?:files?|objects?)\b)"
_COPIES: tuple[tuple[re.Pattern[str], str], ...] = (
    (
        re.compile(
            r"\bh2d\b|\bhtod\b|\bhost[ -]?(?:to|->|→)[ -]?(?:device|gpu)\b|\bcpu ?(?:to|->|→) ?gpu\b|"
            rf"\bupload\b{_NO_FILES}"
        ),
        "host-to-device",
    ),
    (
        re.compile(
            r"\bd2h\b|\bdtoh\b|\b(?:device|gpu)[ -]?(?:to|->|→)[ -]?host\b|\bgpu ?(?:to|->|→) ?cpu\b|"
            rf"\bdownload\b{_NO_FILES}"
        ),
        "device-to-host",
    ),
    (
        re.compile(r"\bd2d\b|\bdtod\b|\bdevice[ -]?(?:to|->|→)[ -]?device\b|\bgpu ?(?:to|->|→) ?gpu\b|\bp2p\b"),
        "device-to-device",
    ),
    (re.compile(r"(?<!zero-)(?<!zero )\bcopy\b"), "copy"),
    (re.compile(r"\bscale\b"), "scale"),
    (re.compile(r"\badd\b"), "add"),
    (re.compile(r"\btriad\b"), "triad"),
)
_PROTOCOLS = re.compile(r"\b(tcp|udp|rdma|roce|sctp|quic)\b")
_READ_SHARE = re.compile(
    r"\b(\d{1,3})(?:\.0+)?\s*%\s*(reads?|writes?)\b|\b(\d{1,3})\s*/\s*(\d{1,3})\b\s*%?\s*(?:reads?|"
    r"r/?w|mix)?|\b(\d{1,3}):(\d{1,3})\b(?: reads?-writes?)?"
)


_ONE_OF = re.compile(r"\[\d{1,4}/\d{1,4}\]")
"""The number of a test, and of how many."""


def given_in(text: str) -> tuple[Parameters, str]:
    """Parameters that words state (``4k randread qd32``), and the words that are left."""
    found: Parameters = {}
    for pattern, name in _GIVEN:
        if (match := pattern.search(text)) and (number := next(filter(None, match.groups()), None)):
            found[name] = int(number)
            text = f"{text[: match.start()]} {text[match.end() :]}"
    if "iodepth" in found and (match := _THREADS_OF_QUEUE.search(text)):
        found["threads"] = int(match[1])
        text = f"{text[: match.start()]} {text[match.end() :]}"
    if (match := _BLOCK.search(text)) and not _OF_PICTURES.search(text):
        factor = BINARY[match[2]] if match[2] else 1.0
        if match[2] != "g" or _OF_BLOCKS.search(text):
            found["bs"] = int(float(match[1] or match[4]) * factor)
        text = f"{text[: match.start()]} {text[match.end() :]}"
    text = " ".join(text.split())
    for patterns, name in ((_COPIES, "operation"), (_PATTERNS, "rw")):
        for pattern, word in patterns:
            if match := pattern.search(text):
                found[name] = word
                text = f"{text[: match.start()]} {text[match.end() :]}"
                break
    if found.get("bs") == 4096 and found.get("rw") in {"read", "write"} and "seq" not in text:
        found["rw"] = f"rand{found['rw']}"  # Reviews call random accesses of 4 KiB by their size alone.
    if match := _PROTOCOLS.search(text):
        found["protocol"] = match[1]
        text = f"{text[: match.start()]} {text[match.end() :]}"
    return found, " ".join(text.split())


def parse_pattern(cell: str) -> Parameters:
    """What a cell says of an access pattern: ``rw``, ``rwmixread``, ``bs``, ``iodepth`` …; empty for other words."""
    text = in_english(cell).lower().replace("_", " ")
    found: Parameters = {}
    if match := _READ_SHARE.search(_ONE_OF.sub(" ", text)):
        if match[1]:
            share = int(match[1]) if match[2].startswith("read") else 100 - int(match[1])
        else:
            first, second = (int(match[3]), int(match[4])) if match[3] else (int(match[5]), int(match[6]))
            is_named = re.search("[a-z]", match[0]) is not None
            is_share = is_named or first + second in {10, 100} or min(first, second) == 1
            share = round(100 * first / (first + second)) if is_share and first + second else -1
        if 0 <= share <= 100:
            found["rwmixread"] = share
            text = f"{text[: match.start()]} {text[match.end() :]}"
    named, _ = given_in(text)
    if "rwmixread" in found and named.get("rw") in {"read", "write", "rw"} and "seq" not in text:
        named.pop("rw")
    if "rwmixread" in found and named.get("rw") not in {None, "rw", "randrw"}:
        found.pop("rwmixread")
    return {**found, **named}
