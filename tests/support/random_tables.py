"""Random tables: schema, options and a history of writes, all drawn from one seed.

Values are at the limits of their types where it matters: both ends, zero, the time before 1970, empty and odd texts.
What Java 0.9 writes and cannot read again itself is left out: NOT NULL fields of a ROW in an ARRAY, a ROW that holds
only nulls, a ROW that holds a ROW and is null, a null beside a ROW in a ROW, partitions by BINARY.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import date
from decimal import Decimal
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa

from paimon_engine import Catalog, Table
from paimon_engine.arrow_types import from_arrow
from paimon_engine.format.file_index.kinds import KINDS, takes
from tests.support.canonical import Row, assert_same_rows, rows_of, text_of

FORMATS = [
    {},
    {"file.format": "orc"},
    {"file.format": "avro"},
    {"file.format.per.level": "0:avro"},
    {"file.compression": "snappy"},
    {"file.compression.per.level": "0:none,5:zstd"},
]
STATS = ["truncate(16)", "full", "counts", "none"]
TEXTS = ["", "a", "ü", "a=b/c", "x" * 40, "né\U0001f600", "%25", "Z\u007f"]
DAY_S = 86_400


def units_of(random: Random, options: dict[str, str]) -> tuple[str, ...]:
    """Units of the timestamps of a table with those formats."""
    formats = options.get("file.format", "parquet") + options.get("file.format.per.level", "")
    fine = ("ns",) if "avro" not in formats and random.random() < 0.3 else ()
    return ("s", "ms", "us", *fine)


def key_types(random: Random, units: tuple[str, ...]) -> list[pa.DataType]:
    """Types that keys and partitions may have."""
    precision = random.choice([1, 9, 10, 18, 19, 38])
    return [
        pa.int8(),
        pa.int16(),
        pa.int32(),
        pa.int64(),
        pa.string(),
        pa.binary(),
        pa.bool_(),
        pa.date32(),
        pa.time32("ms"),
        pa.decimal128(precision, random.randint(0, precision)),
        pa.timestamp(random.choice(units), random.choice([None, "UTC"])),
    ]


def value_type(random: Random, units: tuple[str, ...], depth: int = 0) -> pa.DataType:
    """Any type, nested at most twice."""
    plain = [*key_types(random, units), pa.float32(), pa.float64()]
    if depth == 2 or random.random() < 0.75:
        return random.choice(plain)
    inner = value_type(random, units, depth + 1)
    match random.randrange(3):
        case 0:
            return pa.list_(inner)
        case 1:
            keys = [kind for kind in key_types(random, units) if not pa.types.is_binary(kind)]
            return pa.map_(random.choice(keys), inner)
        case _:
            return pa.struct([pa.field("x", pa.int32()), pa.field("y", inner)])


def value(random: Random, kind: pa.DataType, *, null_share: float = 0.15) -> Any:
    """A value as `pa.array` takes it."""
    if random.random() < null_share and not _holds_row(kind):
        return None
    if pa.types.is_list(kind):
        return [value(random, kind.value_type) for _ in range(random.randrange(4))]
    if pa.types.is_map(kind):
        keys = [value(random, kind.key_type, null_share=0) for _ in range(random.randrange(4))]
        unique = {text_of(row): key for key, row in zip(keys, rows_of(_column(keys, kind.key_type)), strict=True)}
        return [(key, value(random, kind.item_type)) for key in unique.values()]
    if pa.types.is_struct(kind):
        # Java 0.9 reads a ROW that holds only nulls as null.
        y_share = 0.0 if _holds_row(kind) else 0.15
        return {
            "x": value(random, pa.int32(), null_share=0),
            "y": value(random, kind.field("y").type, null_share=y_share),
        }
    return _atom(random, kind)


def _holds_row(kind: pa.DataType) -> bool:
    """Whether it is a ROW that holds a ROW: Java 0.9 fails at nulls of it, and at nulls in it."""
    return pa.types.is_struct(kind) and pa.types.is_struct(kind.field("y").type)


def _column(values: list[Any], kind: pa.DataType) -> pa.Table:
    return pa.table({"c": pa.array(values, kind)})


def _atom(random: Random, kind: pa.DataType) -> Any:
    if pa.types.is_boolean(kind):
        return random.random() < 0.5
    if pa.types.is_integer(kind):
        edge = 2 ** (kind.bit_width - 1)
        return random.choice([-edge, edge - 1, 0, -1, random.randint(-100, 100), random.randint(-edge, edge - 1)])
    if pa.types.is_floating(kind):
        numbers = [0.0, 1.5, -2.25, 1e30, float("inf"), float("-inf"), random.uniform(-1e6, 1e6)]
        return random.choice(numbers)
    if pa.types.is_string(kind):
        return random.choice(TEXTS)
    if pa.types.is_binary(kind):
        return random.choice([b"", b"\0", b"\xff\xfe", random.randbytes(random.randint(1, 20))])
    if pa.types.is_date(kind):
        return random.choice([date(1, 1, 1), date(9999, 12, 31), date(1969, 12, 31), date(2024, 2, 29)])
    if pa.types.is_time(kind):
        return random.choice([0, 1, 86_399_999, random.randrange(86_400_000)])
    if pa.types.is_decimal(kind):
        edge = 10**kind.precision - 1
        unscaled = random.choice([0, 1, -1, edge, -edge, random.randint(-edge, edge)])
        return Decimal((int(unscaled < 0), tuple(map(int, str(abs(unscaled)))), -kind.scale))
    per_second = {"s": 1, "ms": 1_000, "us": 1_000_000, "ns": 1_000_000_000}[kind.unit]
    days = random.choice([-1, 0, 19_000, random.randint(-30_000, 60_000)])
    if kind.unit == "ns":
        # Java 0.9 itself cannot read these before 1970.
        days = abs(days)
    # ORC cannot distinguish the last second before 1970 from the first one after it.
    last = DAY_S * per_second - 1 - per_second * (days == -1)
    return days * DAY_S * per_second + random.choice([0, 1, last])


@dataclass
class RandomTable:
    """How to create a table, random rows for it, and what it should hold after they were written."""

    seed: int
    schema: pa.Schema = field(init=False)
    primary_keys: list[str] = field(init=False)
    partition_keys: list[str] = field(init=False)
    options: dict[str, str] = field(init=False)
    _rows: dict[str, Row] = field(default_factory=dict, init=False)
    _appended: list[Row] = field(default_factory=list, init=False)

    def __post_init__(self) -> None:
        self.random = random = Random(self.seed)
        has_key = random.random() < 0.7
        formats = random.choice(FORMATS)
        units = units_of(random, formats)
        key_kinds = [random.choice(key_types(random, units)) for _ in range(random.randint(1, 3))]
        keys = [pa.field(f"k{n}", kind, not has_key) for n, kind in enumerate(key_kinds)]
        values = [pa.field(f"v{n}", value_type(random, units)) for n in range(random.randint(1, 6))]
        columns = [*keys, *values]
        random.shuffle(columns)
        self.schema = pa.schema(columns)
        self.primary_keys = [one.name for one in keys] if has_key else []
        partitions = random.randrange(len(keys)) if has_key else random.choice([0, 0, 1])
        self.partition_keys = [one.name for one in keys[:partitions] if not pa.types.is_binary(one.type)]
        self.options = self._options(random, formats, has_key=has_key)
        # Draws of their own, so that the seeds of earlier days still give the rest of their tables.
        self._move_keys(Random(f"keys {self.seed}"))
        self.options |= self._features(Random(f"features {self.seed}"))

    def _move_keys(self, random: Random) -> None:
        """Sometimes makes the table one whose keys move between partitions, or one with postponed buckets."""
        if not self.primary_keys or len(self.primary_keys) == len(self.partition_keys):
            return
        rest = [name for name in self.primary_keys if name not in self.partition_keys]
        drawn = random.random()
        if drawn < 0.3 and self.partition_keys:
            self.primary_keys = rest
            self.options["bucket"] = "-1"
        elif drawn > 0.85:
            self.options["bucket"] = "-2"

    def _features(self, random: Random) -> dict[str, str]:
        """Deletion vectors, a changelog, file indexes."""
        options = {}
        if self.primary_keys and random.random() < 0.25:
            options["deletion-vectors.enabled"] = "true"
        elif self.primary_keys and not self.is_postponed:
            options["changelog-producer"] = random.choice(["none", "input", "lookup", "full-compaction"])
        for kind in KINDS:
            columns = [one.name for one in self.schema if takes(kind, from_arrow(one.type)) and random.random() < 0.3]
            if columns and random.random() < 0.5:
                options[f"file-index.{kind}.columns"] = ",".join(columns)
        if random.random() < 0.5:
            options["file-index.in-manifest-threshold"] = random.choice(["1 b", "1 mb"])
        return options

    @property
    def is_postponed(self) -> bool:
        """Whether rows get their buckets when they are compacted, which Java 0.9 does not know."""
        return self.options.get("bucket") == "-2"

    @property
    def needs_compaction(self) -> bool:
        """Whether new rows are seen only after they were compacted."""
        return self.is_postponed or "deletion-vectors.enabled" in self.options

    def _options(self, random: Random, formats: dict[str, str], *, has_key: bool) -> dict[str, str]:
        options = {
            **formats,
            "target-file-size": random.choice(["4 kb", "1 mb"]),
            "metadata.stats-mode": random.choice(STATS),
            "num-sorted-run.compaction-trigger": str(random.randint(2, 5)),
        }
        if has_key:
            options["bucket"] = str(random.randint(1, 4))
            # A draw of its own, so that the seeds of earlier days still give the rest of their tables.
            if Random(f"buckets {self.seed}").random() < 0.3:
                options |= {"bucket": "-1", "dynamic-bucket.target-row-num": "100"}
        elif random.random() < 0.5:
            bucket_keys = [one.name for one in self.schema if one.name.startswith("k")]
            bucket_keys = [name for name in bucket_keys if name not in self.partition_keys]
            if bucket_keys:
                options |= {"bucket": str(random.randint(1, 4)), "bucket-key": ",".join(bucket_keys)}
        if random.random() < 0.3:
            options["file.format"] = options.get("file.format", "parquet")
        return options

    def batch(self) -> tuple[pa.Table, list[str] | None]:
        """Rows with their kinds (None: all are inserts), and remembers what the table holds when they are written."""
        count = self.random.choice([1, 7, 300])
        null_keys = 0.0 if self.primary_keys else 0.1
        columns = [
            pa.array(
                [
                    value(self.random, one.type, null_share=null_keys if one.name.startswith("k") else 0.15)
                    for _ in range(count)
                ],
                one.type,
            )
            for one in self.schema
        ]
        rows = pa.table(columns, schema=self.schema)
        kinds = None
        if self.primary_keys and self.random.random() < 0.6:
            kinds = self.random.choices(["+I", "+U", "-D", "-U"], [6, 2, 2, 1], k=count)
        self._remember(rows, kinds)
        return rows, kinds

    def _remember(self, rows: pa.Table, kinds: list[str] | None) -> None:
        if not self.primary_keys:
            self._appended += rows_of(rows)
            return
        keys = rows_of(rows.select(self.primary_keys))
        for key, row, kind in zip(keys, rows_of(rows), kinds or ["+I"] * rows.num_rows, strict=True):
            if kind in ("+I", "+U"):
                self._rows[text_of(key)] = row
            else:
                self._rows.pop(text_of(key), None)

    @property
    def rows(self) -> list[Row]:
        """What the table should hold now."""
        return list(self._rows.values()) if self.primary_keys else list(self._appended)


STEPS = 5


def build(warehouse: Path, seed: int) -> tuple[RandomTable, Table, dict[str, list]]:
    """The table after a random history, and its rows at each tag."""
    wanted = RandomTable(seed)
    table = Catalog(str(warehouse)).create_table(
        "db.t",
        schema=wanted.schema,
        primary_keys=wanted.primary_keys,
        partition_keys=wanted.partition_keys,
        options=wanted.options,
    )
    tags = {}
    for step in range(STEPS):
        rows, kinds = wanted.batch()
        table.write(rows, row_kinds=kinds)
        if wanted.random.random() < 0.5:
            table.compact(full=wanted.random.random() < 0.5)
        if wanted.needs_compaction:
            table.compact(full=True)
        assert_same_rows(rows_of(table.to_arrow()), wanted.rows, f"our reading after step {step}")
        if wanted.random.random() < 0.3:
            table.create_tag(f"t-{step}")
            tags[f"t-{step}"] = wanted.rows
    if wanted.random.random() < 0.3:
        table.expire_snapshots(retain_max=1)
    if seed % 3 == 0:
        table.compact_manifests()
    if seed % 3 == 1:
        table.analyze()
    return wanted, table, tags


def python_limit(table: RandomTable) -> str | None:
    """What pypaimon is known to read wrongly in such a table."""
    if any("timestamp[ns, tz" in str(one.type) for one in table.schema):
        return "points in time are read in microseconds there"
    return None
