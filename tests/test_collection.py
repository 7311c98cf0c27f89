"""While many objects are made, Python does not search for reference cycles, nor right after."""

from __future__ import annotations

import gc
import subprocess
import sys

from paimon_engine.collection import without_collection


def test_the_next_search_does_not_begin_with_what_was_made() -> None:
    with without_collection():
        made = [[number] for number in range(10_000)]
        assert not gc.isenabled()

    assert gc.isenabled()
    young = {id(one) for generation in (0, 1) for one in gc.get_objects(generation=generation)}
    assert not young & set(map(id, made))
    assert gc.get_freeze_count() == 0


def test_objects_that_the_process_keeps_from_searches_stay_so() -> None:
    program = """
import gc
from paimon_engine.collection import without_collection
gc.freeze()
before = gc.get_freeze_count()
with without_collection():
    made = [[number] for number in range(10)]
assert before and gc.get_freeze_count() <= before
assert gc.get_freeze_count() > before // 2
"""
    subprocess.run([sys.executable, "-c", program], check=True)


def test_a_search_that_is_off_stays_off() -> None:
    gc.disable()
    try:
        with without_collection():
            pass
        assert not gc.isenabled()
    finally:
        gc.enable()
