"""Random tables: merge engine with its options, changelog, buckets, partitions, formats.

What Java 0.9 does wrong is not generated; a comment gives the reason each time.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from random import Random
from typing import Any

from tests.interop.histories import values

ENGINES = ("deduplicate", "partial-update", "aggregation", "first-row", "append")
FUNCTIONS: dict[str, tuple[str, ...]] = {
    "sum": values.NUMBERS,
    "product": values.NUMBERS,
    "max": (*values.NUMBERS, *values.TEXTS, *values.TIMES, *values.BINARIES),
    "min": (*values.NUMBERS, *values.TEXTS, *values.TIMES, *values.BINARIES),
    "last_value": values.ANY,
    "last_non_null_value": values.ANY,
    "first_value": values.ANY,
    "first_non_null_value": values.ANY,
    "first_not_null_value": values.ANY,
    "bool_and": ("BOOLEAN",),
    "bool_or": ("BOOLEAN",),
    "listagg": ("STRING",),
    "collect": (*values.ARRAYS, values.ARRAYS_OF_ARRAYS, values.LINES),
    "merge_map": (values.PAIRS, values.LISTS_BY_NUMBER),
    "nested_update": (values.LINES,),
    "rbm32": ("BYTES",),
    "rbm64": ("BYTES",),
    "hll_sketch": ("BYTES",),
    "theta_sketch": ("BYTES",),
}
TAKES_BACK = frozenset(("sum", "product", "last_value", "last_non_null_value", "collect", "merge_map", "nested_update"))
FORMATS = ("parquet", "orc", "avro")
EXPIRED, LIVING = 1_000, 2_000_000_000
"""Seconds of records that a compaction leaves out, and of those that it keeps."""


@dataclass
class Column:
    """A column, and what its values are like."""

    kind: str
    function: str | None = None
    nulls: float = 0.25
    is_free: bool = False
    """Whether no option names it, so that it may be changed in any way."""
    is_far: bool = False
    """Whether values may be at the limits of the type."""

    def value(self, chance: Random) -> Any:
        """A value, or null."""
        if self.kind.endswith("NOT NULL"):
            return Column(self.kind.removesuffix(" NOT NULL"), self.function, 0.0, is_far=self.is_far).value(chance)
        match self.function:
            case "rbm32" | "rbm64" | "hll_sketch" | "theta_sketch":
                return values.sketch(chance, self.function, nulls=self.nulls)
            case "product":
                # Taking back divides: by nothing, or with a rest, each engine would fail.
                one = None if chance.random() < self.nulls else chance.choice([1, -1])
                digits = self.kind.rsplit(", ", maxsplit=1)[-1].strip(")")
                return one if one is None or not self.kind.startswith("DECIMAL") else f"{one:.{digits}f}"
            case "collect" | "merge_map":
                # Java 0.9 fails when it retracts a null array or map.
                return values.value(chance, self.kind, nulls=0.0)
            case "time":
                return chance.choice([EXPIRED, LIVING, LIVING]) * (1 if self.kind.startswith("INT") else 1000)
            case _:
                return values.value(chance, self.kind, nulls=self.nulls, is_far=self.is_far)


@dataclass
class Draw:
    """A table in the making."""

    chance: Random
    engine: str = ""
    columns: dict[str, Column] = field(default_factory=dict)
    primary_keys: list[str] = field(default_factory=list)
    partition_keys: list[str] = field(default_factory=list)
    options: dict[str, str] = field(default_factory=dict)
    kinds: tuple[str, ...] = ("+I", "+I", "+I", "+U", "-U", "-D")
    kind_column: str | None = None
    ignores_deletes: bool = False
    removes_on_delete: bool = False
    adds_first: bool = False
    """Whether a key is taken back only after it was there."""
    picks_are_certain: bool = False
    may_have_fewer_levels: bool = False
    """Whether files may be on higher levels than the options give."""

    def maybe(self, share: float) -> bool:
        return self.chance.random() < share

    @property
    def is_filled_apart(self) -> bool:
        """Whether records may be in another bucket than in Java 0.9, which counts deletes that it ignores."""
        return self.options["bucket"] == "-1" and self.ignores_deletes

    @property
    def compares_rows(self) -> bool:
        """Whether Java 0.9 knows equal rows.

        It compares maps byte by byte, and null values leave bytes behind; what is not a number equals nothing, nor does
        a list with a null in it. Elements that it has found in a hash table come in any order.
        """
        return not any(
            column.kind.startswith("MAP")
            or column.function in ("collect", "nested_update")
            or column.kind in values.ELEMENTS
            or (column.is_far and column.kind in values.POINTS)
            for column in self.columns.values()
        )

    @property
    def is_lookup(self) -> bool:
        """Whether each compaction takes all of level 0."""
        on = self.options.get("deletion-vectors.enabled") == "true" or self.engine == "first-row"
        return on or self.options.get("changelog-producer") == "lookup" or "force-lookup" in self.options


def draw_table(chance: Random) -> Draw:
    """Any table."""
    draw = Draw(chance)
    draw.engine = chance.choices(ENGINES, [5, 6, 7, 2, 2])[0]
    _draw_keys(draw)
    match draw.engine:
        case "deduplicate":
            _deduplicate(draw)
        case "partial-update":
            _partial_update(draw)
        case "aggregation":
            _aggregation(draw)
        case "first-row":
            _first_row(draw)
        case _:
            _append(draw)
    if draw.engine != "append":
        _changelog(draw)
        _levels(draw)
    for column in draw.columns.values():
        # A sum that leaves its type begins again: when it does, depends on what is merged first.
        if column.function == "sum" and column.kind.startswith("DECIMAL"):
            column.is_far &= draw.picks_are_certain
    _files(draw)
    # Java 0.9 does neither: it checks nothing before it changes the mode, and rewrites no file for its deleted rows.
    draw.options["deletion-vectors.modifiable"] = "true"
    if draw.picks_are_certain:
        draw.options["compaction.delete-ratio-threshold"] = "1"
    # Columns that schema changes may have.
    for name in ("x", "y"):
        if draw.maybe(0.6):
            kind = chance.choice(["INT", "STRING", "SMALLINT", "DECIMAL(10, 2)"])
            fits = draw.options.get("fields.default-aggregate-function") is None
            draw.columns[name] = Column(kind, is_free=fits)
    if draw.maybe(0.3):
        names = list(draw.columns)
        chance.shuffle(names)
        draw.columns = {name: draw.columns[name] for name in names}
    return draw


def _draw_keys(draw: Draw) -> None:
    chance = draw.chance
    if draw.engine == "append":
        draw.columns["k"] = Column("INT", nulls=0.1)
        if draw.maybe(0.4):
            draw.columns["p"] = Column(chance.choice(["INT", "STRING"]), nulls=0.2)
            draw.partition_keys = ["p"]
        return
    draw.columns["k"] = Column(chance.choices(values.KEYS, [6, *[1] * (len(values.KEYS) - 1)])[0] + " NOT NULL")
    draw.primary_keys = ["k"]
    if draw.maybe(0.15):
        draw.columns["k2"] = Column(chance.choice(["STRING NOT NULL", "INT NOT NULL"]))
        draw.primary_keys.append("k2")
    # The reference finds the locations of keys by a read, which level 0 of `first-row` does not belong to.
    mode = chance.choices(["fixed", "dynamic", "cross"], [8, 2, draw.engine != "first-row"])[0]
    draw.options["bucket"] = str(chance.choice([1, 1, 1, 2])) if mode == "fixed" else "-1"
    if mode == "dynamic":
        draw.options["dynamic-bucket.target-row-num"] = str(chance.choice([3, 8, 1000]))
    if draw.maybe(0.3) or mode == "cross":
        draw.columns["p"] = Column(chance.choice(["INT NOT NULL", "STRING NOT NULL"]))
        draw.partition_keys = ["p"]
        if mode != "cross":
            draw.primary_keys.insert(0, "p")


def crosses_partitions(draw: Draw) -> bool:
    """Whether a key is unique over all partitions."""
    return bool(draw.primary_keys) and not {*draw.partition_keys} <= {*draw.primary_keys}


def _sequence(draw: Draw, share: float) -> None:
    """Sometimes columns that order versions."""
    if crosses_partitions(draw) or not draw.maybe(share):
        return
    names = ["s", "s2"][: draw.chance.choice([1, 1, 2])]
    # Java 0.9 merges the columns that order versions as any other of an aggregation: where one is null, a row can
    # end up with another order than its newest version, and then merging is no longer associative.
    nulls = 0.0 if draw.engine == "aggregation" else 0.25
    for name in names:
        draw.columns[name] = Column(draw.chance.choice(values.ORDERED), nulls=nulls)
    draw.options["sequence.field"] = ",".join(names)


def _deduplicate(draw: Draw) -> None:
    _values(draw)
    _sequence(draw, 0.4)
    if draw.maybe(0.25) and not crosses_partitions(draw):
        # A key that moves leaves its old row, and is in two partitions then.
        _ignore_deletes(draw)
    _kind_column(draw)
    _record_expiry(draw)


def _ignore_deletes(draw: Draw) -> None:
    """By the name of today, or by the older ones, of which it is no matter what engine they name."""
    names = ["ignore-delete", *(f"{engine}.ignore-delete" for engine in ("deduplicate", "partial-update", "first-row"))]
    draw.options[draw.chance.choices(names, [4, 1, 1, 1])[0]] = "true"
    draw.ignores_deletes = True
    if draw.maybe(0.1):
        draw.ignores_deletes = draw.options.get("ignore-delete") == "true"
        draw.options.setdefault("ignore-delete", "false")


def _kind_column(draw: Draw) -> None:
    if draw.maybe(0.15) and not crosses_partitions(draw):
        # Java 0.9 takes the kind of the delete of a key that moves from the column, and adds the old row again.
        draw.columns["rk"] = Column("STRING NOT NULL")
        draw.options["rowkind.field"] = draw.kind_column = "rk"


def _values(draw: Draw) -> None:
    for name in ("a", "b"):
        draw.columns[name] = Column(draw.chance.choice(values.ANY), is_free=False, is_far=draw.maybe(0.3))


def _record_expiry(draw: Draw) -> None:
    # Which bucket a record is in decides whether a compaction reads it at all.
    if draw.maybe(0.12) and not draw.is_filled_apart:
        kind, unit = draw.chance.choice([("INT", "seconds-int"), ("BIGINT", "millis-long")])
        draw.columns["t"] = Column(f"{kind} NOT NULL", "time")
        draw.options |= {"record-level.expire-time": "1 d", "record-level.time-field": "t"}
        if unit == "millis-long" or draw.maybe(0.5):
            draw.options["record-level.time-field-type"] = unit


def _function(draw: Draw, name: str, *, retracts: bool) -> None:
    """A column with an aggregate function of its own."""
    chance = draw.chance
    function = chance.choice(list(FUNCTIONS))
    kind = chance.choice(FUNCTIONS[function])
    draw.columns[name] = Column(kind, function, is_far=draw.maybe(0.3))
    draw.options[f"fields.{name}.aggregate-function"] = function
    if function == "listagg" and draw.maybe(0.5):
        draw.options[f"fields.{name}.list-agg-delimiter"] = chance.choice([";", "", "--"])
    # If elements may be repeated, Java 0.9 cannot compare nested ones, and fails to retract them.
    if function == "collect" and (draw.maybe(0.5) or (retracts and kind in (values.LINES, values.ARRAYS_OF_ARRAYS))):
        draw.options[f"fields.{name}.distinct"] = "true"
    if function == "nested_update" and draw.maybe(0.7):
        draw.options[f"fields.{name}.nested-key"] = chance.choice(["id", "id,name"])
    if retracts and (function not in TAKES_BACK or draw.maybe(0.2)):
        draw.options[f"fields.{name}.ignore-retract"] = "true"


def _aggregation(draw: Draw) -> None:
    chance = draw.chance
    draw.options["merge-engine"] = "aggregation"
    if draw.maybe(0.4):
        draw.kinds = ("+I", "+I", "+U")
    elif draw.maybe(0.2):
        _ignore_deletes(draw)
    retracts = "-D" in draw.kinds
    for name in "abc"[: chance.randint(1, 3)]:
        _function(draw, name, retracts=retracts)
    default = None
    if draw.maybe(0.35):
        default = chance.choice(["last_value", "last_non_null_value", *([] if retracts else ["max", "first_value"])])
        draw.options["fields.default-aggregate-function"] = default
    if draw.maybe(0.3):
        kinds = [kind for kind in values.ORDERED if kind != "BOOLEAN"] if default == "max" else values.ANY
        draw.columns["d"] = Column(chance.choice(kinds), is_far=draw.maybe(0.3))
    # In Java 0.9 the function by default holds for the columns that order versions, too.
    _sequence(draw, 0.0 if default in ("max", "first_value") else 0.3)
    _record_expiry(draw)
    if "t" in draw.columns or crosses_partitions(draw):
        # Where a key is taken back that was not there, or has expired, Java 0.9 leaves null in NOT NULL columns, which
        # some formats can write and others cannot; here it is refused.
        draw.kinds = ("+I", "+I", "+U")


def _partial_update(draw: Draw) -> None:
    chance = draw.chance
    draw.options["merge-engine"] = "partial-update"
    way = chance.choice(["ignore", "remove", "groups", "groups", "groups", "adds"])
    _values(draw)
    if way == "ignore":
        draw.options[draw.chance.choice(["ignore-delete", "partial-update.ignore-delete"])] = "true"
        draw.ignores_deletes = True
        if crosses_partitions(draw):
            # In Java 0.9 a delete that is ignored nevertheless gives its key a partition, for the rest of the batch.
            draw.kinds = ("+I", "+U")
    elif way == "adds":
        draw.kinds = ("+I", "+U")
    elif way == "remove":
        draw.options["partial-update.remove-record-on-delete"] = "true"
        draw.removes_on_delete = True
        # Keys are deleted, and there must always be others.
        draw.columns["k"] = Column("INT NOT NULL")
        draw.kinds = ("+I", "+I", "+U", "-U", "-D")
    else:
        _groups(draw)
    if not draw.removes_on_delete:
        # By its columns a row can come after its delete, however late the delete was written; see `_rows_that_go_once`.
        _sequence(draw, 0.2)


def _groups(draw: Draw) -> None:
    chance = draw.chance
    draw.kinds = chance.choice([("+I", "+U"), ("+I", "+I", "+U", "-U", "-D")])
    if crosses_partitions(draw):
        # A partition may see a key for the first time when it is taken back; see `adds_first`.
        draw.kinds = ("+I", "+U")
    retracts = "-D" in draw.kinds
    # Java 0.9 gives a row without its key where retracts alone are merged.
    draw.adds_first = retracts
    members = iter("efghij")
    for group in range(chance.choice([1, 1, 2])):
        orders = [f"g{group}", f"h{group}"][: chance.choice([1, 1, 2])]
        for name in orders:
            draw.columns[name] = Column(chance.choice(values.ORDERED))
        ordered = []
        for _ in range(chance.randint(1, 3)):
            name = next(members)
            ordered.append(name)
            if draw.maybe(0.5):
                _function(draw, name, retracts=retracts)
            else:
                draw.columns[name] = Column(chance.choice(values.ANY))
        draw.options[f"fields.{','.join(orders)}.sequence-group"] = ",".join(ordered)
    if draw.maybe(0.3):
        _function(draw, "c", retracts=retracts)
    if not retracts and draw.maybe(0.3):
        # Others give other results in Java 0.9, where the default function also applies to the columns that order a
        # group, and retracts them.
        draw.options["fields.default-aggregate-function"] = "last_value"


def _first_row(draw: Draw) -> None:
    draw.options["merge-engine"] = "first-row"
    _values(draw)
    if draw.maybe(0.5):
        draw.options[draw.chance.choice(["ignore-delete", "first-row.ignore-delete"])] = "true"
        draw.ignores_deletes = True
    else:
        draw.kinds = ("+I", "+U")
    _kind_column(draw)


def _append(draw: Draw) -> None:
    draw.kinds = ("+I",)
    _values(draw)
    if draw.maybe(0.4):
        draw.options |= {"bucket": str(draw.chance.choice([1, 2])), "bucket-key": "k"}
        return
    draw.options["bucket"] = "-1"
    if draw.maybe(0.6):
        draw.options["deletion-vectors.enabled"] = "true"


def producers(draw: Draw) -> list[str]:
    """What may make the changelog of the table."""
    if draw.engine == "append":
        return ["none"]
    if draw.removes_on_delete:
        # A lookup compaction of 0.9 forgets a delete that it moves below the level of the older row, and one that
        # makes a changelog of what a full compaction changes fails at it.
        return ["none", "input"]
    return ["none", "lookup"] if draw.engine == "first-row" else ["none", "input", "full-compaction", "lookup"]


def may_mark(draw: Draw, producer: str) -> bool:
    """Whether the table may have deletion vectors."""
    if draw.engine == "append":
        return draw.options["bucket"] == "-1"
    if draw.engine == "first-row" or producer == "full-compaction" or draw.removes_on_delete:
        return False
    # As with `first-row`, the reference does not find keys in level 0.
    return not crosses_partitions(draw) and "record-level.time-field" not in draw.options


def _changelog(draw: Draw) -> None:
    producer = draw.chance.choice(producers(draw))
    draw.options["changelog-producer"] = producer
    if producer in ("lookup", "full-compaction") and draw.maybe(0.5):
        draw.options["changelog-producer.row-deduplicate"] = str(draw.compares_rows).lower()
    if may_mark(draw, producer) and draw.maybe(0.4):
        draw.options["deletion-vectors.enabled"] = "true"
    elif producer == "none" and not draw.removes_on_delete and draw.maybe(0.1):
        draw.options["force-lookup"] = "true"


def _levels(draw: Draw) -> None:
    """How minor compactions choose: by the number of runs alone, or by sizes as well."""
    way = draw.chance.choice(["none", "all", "sizes"])
    if way == "none":
        draw.options["num-sorted-run.compaction-trigger"] = "60"
        # Level 0 of a lookup table is compacted alone, however small the run above it is.
        draw.options["compaction.size-ratio"] = "-100"
        # As many levels as elsewhere, so that formats by level have some.
        draw.options["num-levels"] = str(draw.chance.choice([3, 5, 6]))
    elif way == "all":
        draw.options["num-sorted-run.compaction-trigger"] = str(draw.chance.randint(2, 4))
        draw.options["compaction.size-ratio"] = "100000000"
        if draw.maybe(0.5):
            draw.options["num-levels"] = str(draw.chance.choice([4, 6]))
    else:
        draw.options["num-sorted-run.compaction-trigger"] = str(draw.chance.randint(2, 5))
    # How many runs there are to count depends on the bucket.
    draw.picks_are_certain = way == "none" or (way == "all" and not draw.is_filled_apart)


def formats_by_level(chance: Random) -> str:
    """Formats of one to three levels, as the option has them."""
    levels = sorted(chance.sample(range(6), chance.randint(1, 3)))
    return ",".join(f"{level}:{chance.choice(FORMATS)}" for level in levels)


def _files(draw: Draw) -> None:
    chance = draw.chance
    draw.options["file.format"] = chance.choices(FORMATS, [3, 1, 1])[0]
    if draw.maybe(0.2):
        draw.options["file.format.per.level"] = formats_by_level(chance)
    if draw.maybe(0.2):
        draw.options["file.compression"] = chance.choice(["zstd", "snappy"])
    if draw.maybe(0.15):
        draw.options["target-file-size"] = chance.choice(["2 kb", "20 kb"])
    if draw.maybe(0.15):
        draw.options["metadata.stats-mode"] = chance.choice(["none", "counts", "full"])
