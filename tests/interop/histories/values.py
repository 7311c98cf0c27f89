"""Types of columns, and random values of them in the canonical form.

Left out is what Java 0.9 writes and cannot read again: ROWs of nulls only, empty MULTISETs, and parts of a
microsecond before 1970. Numbers with a point have few binary digits, so that the order of adding them does not count.
Some values lie at the ends of their type, where numbers overflow, or are none.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from random import Random
from typing import Any

INTEGERS = ("TINYINT", "SMALLINT", "INT", "BIGINT")
BITS = {"TINYINT": 8, "SMALLINT": 16, "INT": 32, "BIGINT": 64}
POINTS = ("FLOAT", "DOUBLE")
NUMBERS = (*INTEGERS, *POINTS, "DECIMAL(10, 2)", "DECIMAL(20, 0)", "DECIMAL(38, 18)")
TIMES = (
    *("DATE", "TIME(3)", "TIME(0)", "TIMESTAMP(0)", "TIMESTAMP(3)", "TIMESTAMP(6)"),
    *("TIMESTAMP(3) WITH LOCAL TIME ZONE", "TIMESTAMP(6) WITH LOCAL TIME ZONE"),
)
TEXTS = ("STRING", "VARCHAR(9)", "CHAR(3)")
BINARIES = ("BYTES", "VARBINARY(3)", "BINARY(2)")
LINES = "ARRAY<ROW<id INT, name STRING>>"
PAIRS = "MAP<STRING, INT>"
LISTS_BY_NUMBER = "MAP<INT, ARRAY<STRING>>"
ARRAYS = ("ARRAY<INT>", "ARRAY<STRING>", "ARRAY<DOUBLE>", "ARRAY<DECIMAL(10, 2)>", "ARRAY<TIMESTAMP(3)>")
ARRAYS_OF_ARRAYS = "ARRAY<ARRAY<INT>>"
PLACE = "ROW<x INT NOT NULL, y STRING>"
NESTED = (*ARRAYS, ARRAYS_OF_ARRAYS, PAIRS, LISTS_BY_NUMBER, LINES, PLACE)
ANY = (*NUMBERS, *TIMES, *TEXTS, "BOOLEAN", *BINARIES, *NESTED)
ORDERED = (*NUMBERS, *TIMES, *TEXTS, "BOOLEAN", *BINARIES)
"""Types that have an order."""
SKETCHES: Mapping[str, Sequence[str]] = json.loads((Path(__file__).parent / "sketches.json").read_text("utf-8"))
KEYS = (
    *("INT", "BIGINT", "STRING", "DATE", "TIMESTAMP(3)", "DECIMAL(10, 2)", "SMALLINT", "TINYINT", "TIME(3)", "BOOLEAN"),
    *("TIMESTAMP(6) WITH LOCAL TIME ZONE", "DECIMAL(20, 0)", "BYTES", "CHAR(3)", "DOUBLE"),
)


def value(chance: Random, kind: str, *, nulls: float = 0.25, is_far: bool = False) -> Any:
    """A value of the type, or null; `is_far`: sometimes one at the ends of the type."""
    if chance.random() < nulls:
        return None
    if is_far and chance.random() < 0.3:
        far = _far(chance, kind)
        if far is not None:
            return far
    if kind in INTEGERS:
        return chance.randint(-3, 9)
    if kind in POINTS:
        return chance.randint(-6, 18) / 2
    if kind.startswith("DECIMAL"):
        digits = int(kind.split(",")[1].strip(" )"))
        number = chance.randint(-300, 900) / 100 if digits else chance.randint(-3, 9)
        return f"{number:.{digits}f}"
    if kind == "CHAR(3)":
        return chance.choice(["abc", "xyz", "mno"])
    if kind in TEXTS:
        return chance.choice(["x", "y", "", "ü", "zz"])
    if kind == "BOOLEAN":
        return chance.random() < 0.5
    if kind in BINARIES:
        return chance.choice(["0x7f01", "0x4100"] if kind == "BINARY(2)" else ["0x", "0x00", "0x7f01", "0x41", "0xff"])
    if kind in TIMES:
        return _time(chance, kind)
    return _nested(chance, kind)


def _far(chance: Random, kind: str) -> Any:
    """A value at the ends of the type; None where it has none that both engines store alike."""
    if kind in BITS:
        half = 1 << (BITS[kind] - 1)
        return chance.choice([-half, half - 1])
    if kind in POINTS:
        # No zero with a sign: the ORC of Java 0.9 takes one for another where it sees no other values.
        return chance.choice(["NaN", "Infinity", "-Infinity"])
    if kind == "DECIMAL(20, 0)":
        return chance.choice(["-", ""]) + "9" * 20
    if kind == "DECIMAL(38, 18)":
        return chance.choice(["-", ""]) + "9" * 20 + "." + "9" * 18
    return {"DATE": "9999-12-31", "TIMESTAMP(6)": "9999-12-31T23:59:59.999999000"}.get(kind)


def _time(chance: Random, kind: str) -> str:
    day = chance.choice(["1969-12-31", "1970-01-01", "2024-02-29"])
    clock = chance.choice(["00:00:00", "13:05:09", "23:59:59"])
    if kind == "DATE":
        return day
    parts = {"3": ["000", "123"], "0": ["000"]}
    if kind.startswith("TIME("):
        return f"{clock}.{chance.choice(parts[kind[5]])}"
    whole = day == "1969-12-31" or "(0)" in kind
    fraction = "000000000" if whole else chance.choice(["000000000", "250000000"])
    return f"{day}T{clock}.{fraction}" + ("Z" if kind.endswith("ZONE") else "")


ELEMENTS = {
    "ARRAY<INT>": [0, 1, 2, 3, None],
    "ARRAY<STRING>": ["a", "b", "", None],
    "ARRAY<DOUBLE>": [0.5, 1.0, None, "Infinity"],
    "ARRAY<DECIMAL(10, 2)>": ["0.00", "1.50", None],
    "ARRAY<TIMESTAMP(3)>": ["1970-01-01T00:00:00.000000000", "2024-02-29T13:05:09.250000000", None],
    # In Java 0.9 lists with a null in them equal none.
    ARRAYS_OF_ARRAYS: [[], [1], [1, 2], None],
}


def _nested(chance: Random, kind: str) -> Any:
    if kind in ELEMENTS:
        return [chance.choice(ELEMENTS[kind]) for _ in range(chance.randrange(4))]
    if kind == PAIRS:
        return [[key, chance.choice([None, 1, 2])] for key in sorted(chance.sample("abc", chance.randrange(4)))]
    if kind == LISTS_BY_NUMBER:
        return [[key, chance.choice([None, [], ["a", None]])] for key in sorted(chance.sample(range(3), 2))]
    if kind == PLACE:
        return [chance.randrange(3), chance.choice([None, "", "p"])]
    assert kind == LINES, kind
    ids = chance.sample(range(3), chance.randrange(4))
    return [[one, chance.choice([None, "p", "q"])] for one in ids]


def sketch(chance: Random, function: str, *, nulls: float = 0.25) -> str | None:
    """Bytes that Java's library made for that function, as hexadecimal text."""
    return None if chance.random() < nulls else chance.choice(SKETCHES[function])
