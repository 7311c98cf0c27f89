"""A small table next to files that do not belong to it, and names that people give by mistake or with bad intent."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from paimon_engine import Catalog, Table

SCHEMA = pa.schema(
    [pa.field("p", pa.string(), nullable=False), pa.field("k", pa.int64(), nullable=False), ("v", pa.string())]
)

NAMES = (
    "",
    " ",
    ".",
    "..",
    "../..",
    "../../victim/secret.txt",
    "/etc/passwd",
    "a/b",
    "a\\..\\b",
    "nul\0byte",
    "line\nbreak",
    "carriage\rreturn",
    "\x1b[31mred",
    "\x7f",
    "\u202etxt.exe",
    "\ufeff",
    "a\u2215b",
    "\uff0e\uff0e",
    "e\u0301",
    "half \ud800 a character",
    "%2e%2e%2f%2e%2e",
    "file:///etc/passwd",
    "${HOME}",
    "$(touch victim)",
    "*",
    "[a-z]",
    "x" * 10_000,
    "\u20ac" * 90,
)
"""`€` has three bytes, so that ninety of them are too long for a file name that counts bytes."""


@dataclass(frozen=True)
class Sandbox:
    """A directory with a warehouse `lake` and, next to it, `victim`."""

    root: Path

    @property
    def lake(self) -> Path:
        return self.root / "lake"

    @property
    def path(self) -> Path:
        return self.lake / "db.db" / "t"

    @property
    def victim(self) -> Path:
        return self.root / "victim"

    @property
    def source(self) -> str:
        """A file with a row to be written."""
        return str(self.victim / "rows.parquet")

    @property
    def catalog(self) -> Catalog:
        return Catalog(str(self.lake))

    @property
    def table(self) -> Table:
        return self.catalog.table("db.t")

    def outside(self) -> dict[str, bytes | None]:
        """Everything that is not the table's, with its bytes."""
        return tree(self.root, without=self.path)


def tree(root: Path, *, without: Path | None = None) -> dict[str, bytes | None]:
    """Files with their bytes, directories and links without, below a directory."""
    found: dict[str, bytes | None] = {}
    for directory, names, files in os.walk(root):
        here = Path(directory)
        if here == without:
            names.clear()
            continue
        found.update({str(here / name): None for name in names})
        found.update(
            {str(here / name): None if (here / name).is_symlink() else (here / name).read_bytes() for name in files}
        )
    return found


def make_sandbox(root: Path, **options: str) -> Sandbox:
    box = Sandbox(root)
    box.victim.mkdir()
    (box.victim / "secret.txt").write_text("keep me")
    pq.write_table(rows(("new", 1)), box.source)
    table = box.catalog.create_table(
        "db.t", schema=SCHEMA, primary_keys=["p", "k"], partition_keys=["p"], options={"bucket": "1", **options}
    )
    for number in range(3):
        table.write(rows(("a", number), ("b", number)))
    return box


def rows(*keys: tuple[str, int]) -> pa.Table:
    return pa.table({"p": [p for p, _ in keys], "k": [k for _, k in keys], "v": ["v"] * len(keys)}, SCHEMA)
