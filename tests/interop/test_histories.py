"""Random histories, by Java, by this engine, and by both in turns, are one history.

Each seed draws a table (merge engine with its options, changelog, buckets, partitions, formats by level) and a program
of writes, compactions, schema and option changes, tags and deletes: `tests.interop.histories` says what is compared.
`python -m tests.interop.histories --programs 5000` runs many more, and shrinks what differs;
`PAIMON_TEST_SEEDS=1000-1999` tries other seeds here.

What Java 0.9 does plainly wrong is not drawn; `WRONG_IN_JAVA` shows each case that is left out.
"""

from __future__ import annotations

import multiprocessing
import os
import re
from collections.abc import Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from paimon_engine import open_table
from tests.interop.histories.program import Program, from_json
from tests.interop.histories.shrink import failure
from tests.interop.histories.trial import trial
from tests.support.canonical import assert_same_rows, rows_of
from tests.support.oracle import JavaPaimon
from tests.support.seeds import seeds

PROGRAMS = 40
PER_TEST = 10
KEPT = sorted((Path(__file__).parent / "histories" / "kept").glob("*.json"))
SEEDS = seeds(PROGRAMS)
GROUPS = [SEEDS[begin : begin + PER_TEST] for begin in range(0, len(SEEDS), PER_TEST)]

Outcome = Future[str | None]


@pytest.fixture(scope="module")
def outcomes(request: pytest.FixtureRequest, oracle: JavaPaimon) -> Iterator[dict[int, Outcome]]:
    """How the programs of the tests that were chosen end, each process with a Java of its own."""
    oracle.call("ping")  # compiled and fetched once, before others want it too
    chosen = [_group(item) for item in request.session.items if _is_chosen(item, request)]
    workers = min(os.cpu_count() or 1, 4)
    with ProcessPoolExecutor(workers, multiprocessing.get_context("spawn")) as pool:
        yield {seed: pool.submit(trial, seed) for group in chosen for seed in group}
        pool.shutdown(cancel_futures=True)


def _group(item: Any) -> range:
    return item.callspec.params["group"]


def _is_chosen(item: pytest.Item, request: pytest.FixtureRequest) -> bool:
    return item.path == request.path and "group" in getattr(getattr(item, "callspec", None), "params", {})


@pytest.mark.timeout(1200)
@pytest.mark.parametrize("group", GROUPS, ids=lambda group: f"{group[0]}-{group[-1]}")
def test_both_engines_have_the_same_history(outcomes: dict[int, Outcome], group: range) -> None:
    problems = {seed: found for seed in group if (found := outcomes[seed].result()) is not None}

    assert problems == {}, "python -m tests.interop.histories --seed <seed> --programs 1 makes it smaller"


@pytest.mark.parametrize("path", KEPT, ids=lambda path: path.stem)
def test_what_differed_once_does_so_no_more(oracle: JavaPaimon, path: Path) -> None:
    assert failure(from_json(path.read_text("utf-8")), oracle) is None


TWO_RETRACTS = {"op": "write", "rows": [["-D", 1, 1, 1], ["-D", 1, 2, 2]], "by": "java"}
UPDATE_BEFORE = {"op": "write", "rows": [["-U", 1, 1]], "by": "java"}
ONE_MORE = {"op": "write", "rows": [["+I", 1, 2]], "by": "java"}
FULL = {"op": "compact", "full": True, "by": "java"}
FEWER_LEVELS = {"change": "set_option", "name": "num-sorted-run.compaction-trigger", "value": "2"}
WRONG_IN_JAVA: dict[str, tuple[Program, str]] = {
    "a full compaction makes no changelog once files lie higher than the levels that the options give": (
        Program(
            "fewer levels than before",
            [("k", "INT NOT NULL"), ("a", "INT")],
            ["k"],
            [],
            {"bucket": "1", "changelog-producer": "full-compaction", "num-sorted-run.compaction-trigger": "4"},
            [ONE_MORE, FULL, {"op": "alter", "changes": [FEWER_LEVELS], "by": "java"}, ONE_MORE, FULL],
        ),
        "changelog of step 4 .* of our 2 rows and 0 of their 0",
    ),
    "a sequence group that merges retracts alone loses its key, and the file cannot be read": (
        Program(
            "retracts alone",
            [("k", "INT NOT NULL"), ("g", "INT"), ("a", "INT")],
            ["k"],
            [],
            {"bucket": "1", "merge-engine": "partial-update", "fields.g.sequence-group": "a"},
            [TWO_RETRACTS],
        ),
        "refused by Java in its own table",
    ),
    "the delete of a key that moves to another partition takes its kind from the row": (
        Program(
            "a move with kinds in a column",
            [("k", "INT NOT NULL"), ("p", "INT NOT NULL"), ("rk", "STRING NOT NULL")],
            ["k"],
            ["p"],
            {"bucket": "-1", "rowkind.field": "rk"},
            [
                {"op": "write", "rows": [["+I", 1, 0, "+I"]], "by": "java"},
                {"op": "write", "rows": [["+I", 1, 1, "+I"]], "by": "java"},
            ],
        ),
        "we read table 'here': 0 of our 1 rows and 1 of their 2",
    ),
    "a row that comes after its delete in one merge fails": (
        Program(
            "add after delete",
            [("k", "INT NOT NULL"), ("g", "INT"), ("a", "INT")],
            ["k"],
            [],
            {"bucket": "1", "merge-engine": "partial-update", "partial-update.remove-record-on-delete": "true"},
            [{"op": "write", "rows": [["+I", 1, 1, 1], ["-D", 1, 1, 1], ["+I", 1, 2, 2]], "by": "java"}],
        ),
        "NullPointerException|Already closed",
    ),
    "two -U of a key that is not there make a row of nulls, and one makes none": (
        Program(
            "retracts without a row",
            [("k", "INT NOT NULL"), ("a", "INT")],
            ["k"],
            [],
            {"bucket": "1", "merge-engine": "partial-update", "partial-update.remove-record-on-delete": "true"},
            [UPDATE_BEFORE, UPDATE_BEFORE],
            looks_back=False,
        ),
        r"^step 1 .*0 of our 0 rows and 1 of their 1 rows differ\n  only theirs \[null,null\]",
    ),
    "a compaction of forced lookups that makes the changelog of full ones does not look, and loses rows; refused here": (
        Program(
            "forced lookups",
            [("k", "INT NOT NULL"), ("a", "INT")],
            ["k"],
            [],
            {
                "bucket": "1",
                "merge-engine": "aggregation",
                "fields.a.aggregate-function": "sum",
                "force-lookup": "true",
                "changelog-producer": "full-compaction",
            },
            [ONE_MORE],
        ),
        "refused by some only: .*'force-lookup' together with 'changelog-producer' = 'full-compaction'",
    ),
    "a delete that is ignored gives its key a partition for the rest of the batch": (
        Program(
            "an ignored delete comes first",
            [("k", "INT NOT NULL"), ("p", "INT NOT NULL")],
            ["k"],
            ["p"],
            {"bucket": "-1", "merge-engine": "partial-update", "ignore-delete": "true"},
            [{"op": "write", "rows": [["-D", 1, 0], ["+I", 1, 1]], "by": "java"}],
        ),
        "p ours 1 theirs 0",
    ),
    "rows within rows cannot be taken back from a collection": (
        Program(
            "a collection of rows",
            [("k", "INT NOT NULL"), ("a", "ARRAY<ROW<id INT, name STRING>>")],
            ["k"],
            [],
            {"bucket": "1", "merge-engine": "aggregation", "fields.a.aggregate-function": "collect"},
            [
                {"op": "write", "rows": [["+I", 1, [[1, "a"]]]], "by": "java"},
                {"op": "write", "rows": [["-D", 1, [[1, "a"]]]], "by": "java"},
            ],
        ),
        "refused by Java in its own table",
    ),
}


@pytest.mark.parametrize(("program", "expected"), WRONG_IN_JAVA.values(), ids=WRONG_IN_JAVA.keys())
def test_java_is_wrong_where_programs_do_not_test_it(oracle: JavaPaimon, program: Program, expected: str) -> None:
    """When one of these no longer differs, it can be drawn again."""
    found = failure(program, oracle)

    assert found is not None
    assert re.search(expected, found), found


def test_rows_that_java_stored_without_their_key_have_it_here(oracle: JavaPaimon, tmp_path: Path) -> None:
    path = tmp_path / "db.db" / "t"
    fields = [["k", "INT NOT NULL"], ["g", "INT"], ["a", "INT"]]
    options = {"bucket": "1", "file.format": "orc", "merge-engine": "partial-update", "fields.g.sequence-group": "a"}
    oracle.call("create_table", table=str(path), fields=fields, primary_keys=["k"], options=options)
    oracle.call("write", table=str(path), rows=[["+I", 1, 1, 1], ["+I", 9, 1, 1]], kinds=True)
    oracle.call("write", table=str(path), rows=[["-D", 5, 1, 1], ["-D", 5, 2, 2], ["+I", 6, 1, 1]], kinds=True)
    assert [None, 2, None] in oracle.read(path)

    table = open_table(str(path))
    expected = [[1, 1, 1], [5, 2, None], [6, 1, 1], [9, 1, 1]]

    assert_same_rows(expected, rows_of(table.to_arrow()))
    table.compact(full=True)
    assert_same_rows(expected, rows_of(table.to_arrow()))
    assert_same_rows(expected, oracle.read(path))
    oracle.assert_sound(path)
