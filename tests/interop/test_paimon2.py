"""Java Paimon 2 beside this engine: the tables of the corpus, system tables, and random histories in turns.

`python -m tests.interop.histories --release 2` runs many more histories.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from paimon_engine import open_table
from paimon_engine.inspect.system_tables import SYSTEM_TABLES
from tests.interop.histories.shrink import failure
from tests.interop.histories.trial import program_for
from tests.support.canonical import assert_same_rows, rows_of, text_of
from tests.support.corpus import Case, case, corpus_cases, writable
from tests.support.oracle import JavaPaimon
from tests.support.seeds import seeds

UNKNOWN_TO_IT = {"default_values": "values of nulls that options give, which Java 2 has in columns of the schema"}
"""Cases that Java 2 reads in another way than Java 0.9."""


SHARE = 1 if os.environ.get("PAIMON_TEST_EXPLORE") == "1" else 4
"""One case of that many is tried."""


@pytest.mark.parametrize("case", corpus_cases()[::SHARE])
def test_java_2_reads_the_corpus_before_and_after_our_compaction(case: Case, tmp_path: Path, paimon2: JavaPaimon):
    if case.name in UNKNOWN_TO_IT:
        pytest.skip(UNKNOWN_TO_IT[case.name])
    path = case.copy_to(tmp_path)
    table = open_table(str(path))
    expected = rows_of(table.to_arrow())

    compare(paimon2.read(path), expected, case, "as Java 0.9 left it")
    if not writable(case):
        return
    table.compact(full=True)

    compare(paimon2.read(path), rows_of(table.to_arrow()), case, "after our compaction")
    assert paimon2.problems(path) == []


def compare(found: list[Any], expected: list[Any], case: Case, where: str) -> None:
    indices = [index for index, one in enumerate(case.schema()["fields"]) if one["name"] in case.unordered]
    for row in [*found, *expected]:
        for index in indices:
            row[index] = row[index] and sorted(row[index], key=text_of)
    assert_same_rows(found, expected, where)


@pytest.mark.parametrize("name", [name for name in SYSTEM_TABLES if name != "row_tracking"])
@pytest.mark.parametrize("of", ["branches", "changelog_lookup"])
def test_system_tables_are_those_of_java_2(name: str, of: str, paimon2: JavaPaimon):
    path = str(case(of).table)
    answer = paimon2.call("read", table=path, system=name)
    ours = open_table(f"{path}${name}").to_arrow()
    # When a branch was made Java takes from its directory, which changes later too.
    width = 1 if name == "branches" else len(answer["columns"])

    assert ours.column_names[: len(answer["columns"])] == [column["name"] for column in answer["columns"]]
    assert _plain(rows_of(ours), width) == _plain(answer["rows"], width)


def _plain(rows: list[Any], width: int) -> list[str]:
    """Rows in one order, the keys of options in one order."""
    ordered = [
        [json.loads(one) if isinstance(one, str) and one.startswith('{"') else one for one in row[:width]]
        for row in rows
    ]
    return sorted(json.dumps(row, sort_keys=True) for row in ordered)


@pytest.mark.parametrize("seed", seeds(8))
def test_both_engines_have_the_same_history(seed: int, paimon2: JavaPaimon):
    assert failure(program_for(seed, "2"), paimon2) is None
