"""A program: how a table is made, the steps that are run on it, and what each side does of them, as JSON."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

Step = dict[str, Any]
"""`op` and its fields, as the Java reference takes them; `by` says who does it where both engines take turns.

| op | fields |
| --- | --- |
| write | `rows`, each beginning with its kind; `overwrite`: partition values, or {} |
| compact | `full`; `limits`: further arguments of our `Table.compact` |
| alter | `changes` as the reference spells them |
| switch | as alter, of options that say what the levels mean; not done where a table is not ready for it |
| tag | `tag` |
| delete | `column`, `value`: rows of an append table that have that value |
"""


@dataclass(frozen=True)
class Program:
    """A table and its steps; `name` says what was drawn."""

    name: str
    fields: Sequence[Sequence[str]]
    primary_keys: Sequence[str]
    partition_keys: Sequence[str]
    options: Mapping[str, str]
    steps: Sequence[Step]
    unordered: Sequence[str] = ()
    """Columns whose elements have no defined order."""
    picks_are_certain: bool = False
    """Whether the options alone decide what a minor compaction takes, with any sizes of files."""
    looks_back: bool = True
    """Whether rows are read at the end, by snapshot; otherwise after each step."""
    shown: Mapping[str, Any] = field(default_factory=dict)
    """How the program came to be, for those who read it."""


def to_json(program: Program) -> str:
    """Text that `from_json` reads; a line for each step."""
    value = asdict(program)
    steps = ",\n    ".join(json.dumps(step, ensure_ascii=False) for step in value.pop("steps"))
    head = json.dumps(value, ensure_ascii=False, indent=1)
    return head[: head.rindex("}")].rstrip() + f',\n "steps": [\n    {steps}\n ]\n}}\n'


def from_json(text: str) -> Program:
    """The program of `to_json`."""
    return Program(**json.loads(text))
