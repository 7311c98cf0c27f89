"""The table of aggregate functions in the documentation, as Markdown, made from the registry of the engine.

`python -m paimon_engine.merge.function_table` prints it.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Final

from paimon_engine.merge.aggregate import FUNCTIONS
from paimon_engine.types import DataType, parse_type

KINDS_OF_TYPES: Final[Mapping[str, tuple[DataType, ...]]] = {
    "INT, BIGINT": (parse_type("INT"), parse_type("BIGINT")),
    "other numbers": tuple(map(parse_type, ("TINYINT", "SMALLINT", "FLOAT", "DOUBLE", "DECIMAL(9, 2)"))),
    "BOOLEAN": (parse_type("BOOLEAN"),),
    "CHAR": (parse_type("CHAR(3)"),),
    "VARCHAR": (parse_type("VARCHAR(9)"), parse_type("STRING")),
    "BINARY": (parse_type("BINARY(3)"),),
    "VARBINARY": (parse_type("VARBINARY(9)"), parse_type("BYTES")),
    "DATE, TIME, TIMESTAMP": tuple(
        map(parse_type, ("DATE", "TIME(3)", "TIMESTAMP(6)", "TIMESTAMP(3) WITH LOCAL TIME ZONE"))
    ),
    "ARRAY": (parse_type({"type": "ARRAY", "element": "INT"}),),
    "ARRAY of ROW": (
        parse_type({"type": "ARRAY", "element": {"type": "ROW", "fields": [{"id": 0, "name": "id", "type": "INT"}]}}),
    ),
    "MAP": (parse_type({"type": "MAP", "key": "INT", "value": "INT"}),),
    "MAP to ROW": (
        parse_type(
            {
                "type": "MAP",
                "key": "INT",
                "value": {
                    "type": "ROW",
                    "fields": [{"id": 0, "name": "v", "type": "INT"}, {"id": 1, "name": "ts", "type": "STRING"}],
                },
            }
        ),
    ),
    "ROW": (parse_type({"type": "ROW", "fields": [{"id": 0, "name": "id", "type": "INT"}]}),),
}
"""Heading of a column of the table → types that an aggregate function takes all, or none."""


def function_table() -> str:
    """Which function takes which types, and whether it can retract a −U or −D."""
    head = ["Function", *KINDS_OF_TYPES, "retracts"]
    rows = [head, ["---"] * len(head)]
    for name, function in FUNCTIONS.items():
        taken = [all(function.takes(kind) for kind in kinds) for kinds in KINDS_OF_TYPES.values()]
        rows.append([f"`{name}`", *("✓" if yes else "" for yes in (*taken, function.retracts))])
    return "".join(f"| {' | '.join(row)} |\n" for row in rows)


if __name__ == "__main__":
    sys.stdout.write(function_table())
