"""A table and a branch of it, for tests of what happens between the two."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa

from paimon_engine import Catalog, Table
from paimon_engine.table.check.table_check import check_table

SCHEMA = pa.schema(
    [
        pa.field("p", pa.int32(), nullable=False),
        pa.field("k", pa.int64(), nullable=False),
        pa.field("v", pa.string()),
    ]
)


class Pair:
    """A table and a branch of it, made from its tag `fork` after one commit of the keys 1 and 2."""

    def __init__(self, root: Path, keys: tuple[str, ...] = (), partitions: tuple[str, ...] = (), **options: Any):
        found = {"bucket": -1, **options}
        self.catalog = Catalog(str(root / "lake"))
        self.main = self.catalog.create_table(
            "db.t", schema=SCHEMA, primary_keys=list(keys), partition_keys=list(partitions), options=found
        )
        self.write(1, 2)
        self.main.create_tag("fork")
        self.main.create_branch("dev", tag="fork")

    @property
    def dev(self) -> Table:
        return self.catalog.table("db.t$branch_dev")

    def branch(self, name: str) -> Table:
        """Another branch, from the same tag."""
        self.main.create_branch(name, tag="fork")
        return self.catalog.table(f"db.t$branch_{name}")

    def write(self, *keys: int, to: str = "main", value: str = "old", partition: int = 0) -> None:
        rows = pa.table({"p": [partition] * len(keys), "k": list(keys), "v": [value] * len(keys)}, SCHEMA)
        (self.dev if to == "dev" else self.main).write(rows)

    def keys(self, table: Table | None = None) -> list[int]:
        return sorted((table or self.main).to_arrow(["k"])["k"].to_pylist())

    def values(self) -> dict[int, str]:
        return {row["k"]: row["v"] for row in self.main.to_arrow().to_pylist()}

    def assert_sound(self) -> None:
        assert check_table(self.main._handle, footers=False) == []
