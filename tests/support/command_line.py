"""What tests of the command line share: how a run ended, and the table that most of them use."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import pyarrow as pa

SCHEMA = pa.schema(
    [
        pa.field("k", pa.int64(), nullable=False),
        pa.field("name", pa.string()),
        pa.field("share", pa.float64()),
        pa.field("raw", pa.binary()),
        pa.field("marks", pa.list_(pa.int64())),
    ]
)


@dataclass(frozen=True)
class Ended:
    code: int
    out: str
    err: str

    @property
    def lines(self) -> list[str]:
        return [line.rstrip() for line in self.out.splitlines()]


Run = Callable[..., Ended]


def rows(*found: dict[str, object]) -> pa.Table:
    return pa.Table.from_pylist(list(found), SCHEMA)
