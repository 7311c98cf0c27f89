"""What `compatibility` says of a table is what the engines do: each reads a table of each kind."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from paimon_engine import open_table
from paimon_engine.table.check.reader_facts import ENGINES, FACTS, RIGHT
from tests.interop.reader_matrix import CASES, Readers, outcomes
from tests.support.newest import NewestPaimon
from tests.support.oracle import JavaPaimon
from tests.support.pypaimon import PyPaimon

pytestmark = [pytest.mark.java, pytest.mark.interop]

OF_ALL = (
    *("primary key", "append", "sum", "first row", "changelog by lookup", "orc", "avro", "file index"),
    *("file index, bitmap", "compression in file names", "dynamic buckets", "sequence field", "deletion vectors"),
    *("deletion vectors of 64 bits", "default value of 0.9"),
)
"""Cases that all engines read right; a run that explores tries them, too."""
TRIED = [name for name in CASES if name not in OF_ALL or os.environ.get("PAIMON_TEST_EXPLORE") == "1"]


@pytest.mark.parametrize("name", TRIED)
def test_the_report_is_what_the_engines_do(
    name: str, oracle: JavaPaimon, newest: NewestPaimon, paimon2: JavaPaimon, pypaimon: PyPaimon, tmp_path: Path
):
    path, found = outcomes(CASES[name], tmp_path, Readers(oracle, newest, paimon2, pypaimon))

    report = open_table(path).compatibility()

    assert {one.engine: one.reads for one in report.engines} == found
    assert all(bool(one.reasons) == (one.reads != RIGHT) for one in report.engines)
    assert (report.status == "compatible") == all(reads == RIGHT for reads in found.values())


def test_each_fact_is_about_engines_that_are_named():
    assert all(fact.outcomes and set(fact.outcomes) <= set(ENGINES) for fact in FACTS.values())
