"""Types of columns, and random values of them in the canonical form.

Left out is what Java 0.9 writes and cannot read again: ROWs of nulls only, empty MULTISETs, and parts of a
microsecond before 1970. Numbers with a point have few binary digits, so that the order of adding them does not count.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from random import Random
from typing import Any

INTEGERS = ("TINYINT", "SMALLINT", "INT", "BIGINT")
NUMBERS = (*INTEGERS, "FLOAT", "DOUBLE", "DECIMAL(10, 2)", "DECIMAL(20, 0)")
TIMES = ("DATE", "TIME(3)", "TIMESTAMP(3)", "TIMESTAMP(6)", "TIMESTAMP(3) WITH LOCAL TIME ZONE")
TEXTS = ("STRING", "VARCHAR(9)")
LINES = "ARRAY<ROW<id INT, name STRING>>"
PAIRS = "MAP<STRING, INT>"
ARRAYS = ("ARRAY<INT>", "ARRAY<STRING>")
ANY = (*NUMBERS, *TIMES, *TEXTS, "CHAR(3)", "BOOLEAN", "BYTES", *ARRAYS, PAIRS, LINES)
SKETCHES: Mapping[str, Sequence[str]] = json.loads((Path(__file__).parent / "sketches.json").read_text("utf-8"))
KEYS = ("INT", "BIGINT", "STRING", "DATE", "TIMESTAMP(3)", "DECIMAL(10, 2)", "SMALLINT")


def is_unordered(kind: str) -> bool:
    """Whether elements of such values have no defined order once they were merged."""
    return kind.startswith(("ARRAY", "MAP"))


def value(chance: Random, kind: str, *, nulls: float = 0.25) -> Any:
    """A value of the type, or null."""
    if chance.random() < nulls:
        return None
    if kind in INTEGERS:
        return chance.randint(-3, 9)
    if kind in ("FLOAT", "DOUBLE"):
        return chance.randint(-6, 18) / 2
    if kind.startswith("DECIMAL"):
        digits = kind.split(",")[1].strip(" )")
        return f"{chance.randint(-300, 900) / 100:.2f}" if digits == "2" else str(chance.randint(-3, 9))
    if kind == "CHAR(3)":
        return chance.choice(["abc", "xyz", "mno"])
    if kind in TEXTS:
        return chance.choice(["x", "y", "", "ü", "zz"])
    if kind == "BOOLEAN":
        return chance.random() < 0.5
    if kind == "BYTES":
        return chance.choice(["0x", "0x00", "0x7f01", "0x41"])
    if kind in TIMES:
        return _time(chance, kind)
    return _nested(chance, kind)


def _time(chance: Random, kind: str) -> str:
    day = chance.choice(["1969-12-31", "1970-01-01", "2024-02-29"])
    clock = chance.choice(["00:00:00", "13:05:09", "23:59:59"])
    if kind == "DATE":
        return day
    if kind == "TIME(3)":
        return f"{clock}.{chance.choice(['000', '123'])}"
    fraction = "000000000" if day == "1969-12-31" else chance.choice(["000000000", "250000000"])
    return f"{day}T{clock}.{fraction}" + ("Z" if kind.endswith("ZONE") else "")


def _nested(chance: Random, kind: str) -> list[Any]:
    if kind == "ARRAY<INT>":
        return [chance.randint(0, 3) for _ in range(chance.randrange(4))]
    if kind == "ARRAY<STRING>":
        return [chance.choice(["a", "b", ""]) for _ in range(chance.randrange(4))]
    if kind == PAIRS:
        return [[key, chance.choice([None, 1, 2])] for key in sorted(chance.sample("abc", chance.randrange(4)))]
    assert kind == LINES, kind
    ids = chance.sample(range(3), chance.randrange(4))
    return [[one, chance.choice([None, "p", "q"])] for one in ids]


def sketch(chance: Random, function: str, *, nulls: float = 0.25) -> str | None:
    """Bytes that Java's library made for that function, as hexadecimal text."""
    return None if chance.random() < nulls else chance.choice(SKETCHES[function])
