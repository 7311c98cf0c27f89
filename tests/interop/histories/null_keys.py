"""Programs in which keys are null: those of other tables, some of whose keys become nulls, in all steps alike."""

from __future__ import annotations

import json
from dataclasses import replace
from random import Random
from typing import Any

from tests.interop.histories.program import Program

OPTION = "primary-key.nullable"
NULLS = 0.3
"""How many of the values of a key column become null."""


def with_null_keys(program: Program, seed: int) -> Program:
    """The program with nulls in its keys; as it is, if it has no primary key."""
    if not program.primary_keys:
        return program
    chance = Random(seed)
    # A row gets its kind from such a column, and one without a time never expires or cannot be stored.
    special = {program.options.get("rowkind.field"), program.options.get("record-level.time-field")}
    keys = [index for index, (name, _) in enumerate(program.fields) if name in {*program.primary_keys} - special]
    known: dict[tuple[int, str], Any] = {}

    def changed(row: list[Any]) -> list[Any]:
        # The kind of the row is in front.
        for index in keys:
            value = row[index + 1]
            is_null = known.setdefault((index, json.dumps(value)), chance.random() < NULLS)
            row = [*row[: index + 1], None if is_null else value, *row[index + 2 :]]
        return row

    fields = [
        (name, kind.removesuffix(" NOT NULL") if name in program.primary_keys else kind)
        for name, kind in program.fields
    ]
    steps = [
        {**step, "rows": [changed(row) for row in step["rows"]]} if "rows" in step else step for step in program.steps
    ]
    return replace(program, fields=fields, options={**program.options, OPTION: "true"}, steps=steps)
