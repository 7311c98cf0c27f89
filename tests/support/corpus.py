"""The corpus: tables that Java wrote, each with the rows that Java reads back.

A test of every case, or of every read of some cases:

    @pytest.mark.parametrize("case", corpus_cases("format:parquet"))
    @pytest.mark.parametrize(("case", "read"), corpus_reads())
"""

from __future__ import annotations

import gzip
import json
import os
import shutil
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from paimon_engine.errors import UnsupportedError
from paimon_engine.options import TableOptions
from paimon_engine.supported import check_readable, check_writable
from paimon_engine.table.files.formats import READERS
from tests.support.canonical import Row, text_of
from tests.support.golden import golden_folder
from tests.support.reference import missing, reference_part


@dataclass(frozen=True)
class Read:
    """One read and what Java returned; `at` says what was read, as the corpus describes it."""

    at: dict[str, Any]
    names: tuple[str, ...]
    types: tuple[str, ...]
    """SQL texts; ARRAY, MAP and ROW are written with angle brackets."""

    row_count: int
    sha256: str
    inline: list[Row] | None
    file: Path | None

    @property
    def rows(self) -> list[Row]:
        """The rows in the canonical form, in no particular order."""
        if self.inline is not None:
            return [list(row) for row in self.inline]
        assert self.file is not None
        with gzip.open(self.file, "rt", encoding="utf-8") as lines:
            return [json.loads(line) for line in lines]


@dataclass(frozen=True)
class Case:
    """One table of the corpus."""

    name: str
    folder: Path

    @property
    def table(self) -> Path:
        """The table's directory, which must not be written to; see `copy_to`."""
        return self.folder / "table"

    @property
    def expected(self) -> dict[str, Any]:
        """All that `expected.json` says."""
        return _expected(self.folder)

    @property
    def options(self) -> dict[str, str]:
        """Options of the table's newest schema."""
        return dict(self.expected["options"])

    @property
    def unordered(self) -> tuple[str, ...]:
        """Array columns whose elements have no defined order."""
        return tuple(self.expected.get("unordered_columns", ()))

    def schema(self, schema_id: int | None = None) -> dict[str, Any]:
        """The JSON of that schema file, or of the newest one."""
        number = max(self.expected["schema_ids"]) if schema_id is None else schema_id
        return json.loads((self.table / "schema" / f"schema-{number}").read_text(encoding="utf-8"))

    def reads(self) -> list[Read]:
        """All reads in the order of the corpus; the first is the table as it is now."""
        return [self._read(item) for item in self.expected["reads"]]

    def read(self, **at: Any) -> Read:
        """The read of exactly that description: `read()`, `read(snapshot=3)`, `read(tag="a")`."""
        return next(read for read in self.reads() if read.at == at)

    def copy_to(self, folder: Path) -> Path:
        """A copy of the table that may be written to, as `<folder>/db.db/<case>`."""
        target = folder / "db.db" / self.name
        shutil.copytree(self.table, target, copy_function=shutil.copyfile)
        for path in (target, *target.rglob("*")):
            os.chmod(path, 0o755 if path.is_dir() else 0o644)
        return target

    def _read(self, item: dict[str, Any]) -> Read:
        return Read(
            at=item["at"],
            names=tuple(column["name"] for column in item["columns"]),
            types=tuple(column["type"] for column in item["columns"]),
            row_count=item["row_count"],
            sha256=item["sha256"],
            inline=item.get("rows"),
            file=self.folder / item["rows_file"] if "rows_file" in item else None,
        )


@cache
def _expected(folder: Path) -> dict[str, Any]:
    return json.loads((folder / "expected.json").read_text(encoding="utf-8"))


def case(name: str) -> Case:
    """The case of that name; skips the test where there is none."""
    folder = _folder()
    if folder is None or not (folder / name).is_dir():
        pytest.skip(missing("corpus"))
    return Case(name, folder / name)


def _folder() -> Path | None:
    """The corpus, or else the golden tables, which are most of the same tables written again."""
    return reference_part("corpus") or golden_folder()


@cache
def case_names(*features: str) -> tuple[str, ...]:
    """Names of the cases that have all those features; empty where there is no corpus."""
    folder = _folder()
    if folder is None:
        return ()
    index = json.loads((folder / "index.json").read_text(encoding="utf-8"))
    return tuple(entry["case"] for entry in index["cases"] if set(features) <= set(entry["features"]))


def corpus_cases(*features: str) -> list[Any]:
    """Parameters for `parametrize`: the cases that have all those features, or one that skips with the reason."""
    return [pytest.param(case(name), id=name) for name in case_names(*features)] or _absent(1)


def every_third(cases: Sequence[Any]) -> list[Any]:
    """The same parameters; two of three are left to the long run."""
    return [
        one if number % 3 == 0 else pytest.param(*one.values, id=one.id, marks=[*one.marks, pytest.mark.long])
        for number, one in enumerate(cases)
    ]


def corpus_reads(*features: str, at: Collection[str] | None = None) -> list[Any]:
    """Parameters (case, read) for `parametrize`; `at` keeps the reads described by those words only.

    `at=()` keeps reads of the table as it is now, `at={"snapshot", "tag"}` adds time travel to these.
    """
    found = [
        pytest.param(one, read, id=f"{name}{text_of(read.at)}")
        for name in case_names(*features)
        for one in [case(name)]
        for read in one.reads()
        if at is None or set(read.at) <= set(at)
    ]
    return found or _absent(2)


def _absent(arguments: int) -> list[Any]:
    return [pytest.param(*[None] * arguments, marks=pytest.mark.skip(reason=missing("corpus")), id="no corpus")]


def readable(case: Case) -> bool:
    """Whether the engine can read the table; the corpus also has formats and merge engines that it lacks."""
    try:
        check_readable(TableOptions(case.options, has_primary_key=bool(case.schema()["primaryKeys"])))
    except UnsupportedError:
        return False
    return all(path.suffix[1:] in READERS for path in case.table.rglob("data-*-*.*") if path.suffix != ".index")


def writable(case: Case) -> bool:
    """Whether the engine can write to the table."""
    try:
        check_writable(TableOptions(case.options, has_primary_key=bool(case.schema()["primaryKeys"])))
    except UnsupportedError:
        return False
    fields = case.schema()["fields"]
    return readable(case) and not any("TIMESTAMP(9)" in str(field["type"]) for field in fields)
