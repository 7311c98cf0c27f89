"""Manifests of random entries, also as other writers make them."""

from __future__ import annotations

import copy
import random
from collections.abc import Sequence
from typing import Any

from paimon_engine.format.avro import write_records
from paimon_engine.format.binary_row import EMPTY_ROW
from paimon_engine.meta.manifest import MANIFEST_SCHEMA, DataFile, FileKind, ManifestEntry, entry_to_record
from paimon_engine.meta.stats import EMPTY_STATS, SimpleStats


def _maybe(rng: random.Random, value: Any, chance: float = 0.3) -> Any:
    return None if rng.random() < chance else value


def _stats(rng: random.Random, columns: int) -> SimpleStats:
    if rng.random() < 0.1:
        return EMPTY_STATS
    numbers = tuple(_maybe(rng, rng.choice([0, 1, 63, 64, 100_000, 2**40]), 0.1) for _ in range(columns))
    return SimpleStats(rng.randbytes(rng.randrange(90)), rng.randbytes(rng.randrange(90)), numbers)


def random_file(rng: random.Random, number: int) -> DataFile:
    columns = rng.randrange(20)
    return DataFile(
        name=f"data-{rng.randrange(10**6)}-{number}.{rng.choice(['parquet', 'orc', 'avro'])}",
        size_bytes=rng.choice([0, 1, 10**9, 2**50]),
        row_count=rng.randrange(10**6),
        min_key=rng.randbytes(rng.randrange(40)),
        max_key=EMPTY_ROW,
        key_stats=_stats(rng, 1),
        value_stats=_stats(rng, columns),
        min_sequence_number=rng.choice([-1, 0, 5, 2**45]),
        max_sequence_number=rng.randrange(2**50),
        schema_id=rng.randrange(4),
        level=rng.randrange(6),
        extra_files=tuple(f"x-{number}-{index}" for index in range(rng.choice([0, 0, 1, 3]))),
        creation_time_ms=_maybe(rng, rng.randrange(2**41)),
        delete_row_count=_maybe(rng, rng.randrange(9)),
        embedded_file_index=_maybe(rng, rng.randbytes(8), 0.8),
        file_source=_maybe(rng, rng.randrange(2)),
        value_stats_columns=_maybe(rng, tuple(f"spalte-ä{index}" for index in range(rng.randrange(4)))),
        external_path=_maybe(rng, f"s3://bücket/{number}", 0.8),
        extras={"_FIRST_ROW_ID": 7, "_WRITE_COLS": ["a"], "_WRITE_COLS_SEQUENCES": [1, 2**40]}
        if rng.random() < 0.2
        else {},
    )


def random_entries(rng: random.Random, count: int) -> list[ManifestEntry]:
    return [
        ManifestEntry(
            rng.choice(list(FileKind)),
            rng.choice([EMPTY_ROW, b"partition one", b"two"]),
            rng.randrange(-2, 100),
            rng.choice([-1, 1, 100]),
            random_file(rng, number),
        )
        for number in range(count)
    ]


def stored(entries: Sequence[ManifestEntry], schema: Any = MANIFEST_SCHEMA, codec: str = "zstd") -> bytes:
    return write_records(schema, [entry_to_record(entry) for entry in entries], codec)


def without_fields(*names: str) -> dict[str, Any]:
    schema = copy.deepcopy(MANIFEST_SCHEMA)
    file = schema["fields"][-1]["type"]
    file["fields"] = [field for field in file["fields"] if field["name"] not in names]
    return schema


def with_field(name: str, avro_type: Any) -> dict[str, Any]:
    schema = without_fields(name)
    default = {"default": None} if isinstance(avro_type, list) else {}
    schema["fields"][-1]["type"]["fields"].append({"name": name, "type": avro_type, **default})
    return schema
