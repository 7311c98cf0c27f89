"""Random filters over random files and tables find the rows that match, whatever parts of the files are left out."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from tests.filters.trial import try_case, try_file, try_table
from tests.support.corpus import case_names
from tests.support.seeds import seeds


def test_files_are_read_in_parts():
    """All seeds at once, to see that pages are chosen, and not."""
    counts = Counter[str]()
    for seed in seeds(15):
        try_file(seed, counts)
    assert counts["parts of row groups"] > 15
    assert counts["row groups that are read as a whole"] > 5
    assert counts["rows that match"] > 500


@pytest.mark.parametrize("seed", seeds(4))
def test_tables(tmp_path: Path, seed: int):
    try_table(seed, tmp_path, Counter())


@pytest.mark.parametrize("name", case_names()[::9])
def test_tables_of_java(name: str):
    try_case(0, name, Counter())
