"""Random histories of tables of every kind; `python -m tests.life_cycle` tells many more.

One test is some histories of one kind: the same in every run, or new ones with PAIMON_TEST_EXPLORE=1.
"""

from __future__ import annotations

import itertools
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings
from hypothesis.stateful import run_state_machine_as_test

from tests.life_cycle.kinds import KINDS, Kind
from tests.life_cycle.machine import LifeCycle
from tests.life_cycle.replay import assert_java_reads
from tests.support.oracle import JavaPaimon

HISTORIES, STEPS = 2, 45


def tell(machine: type[LifeCycle]) -> None:
    """Some histories of that machine."""
    short = settings(max_examples=HISTORIES, stateful_step_count=STEPS, suppress_health_check=list(HealthCheck))
    run_state_machine_as_test(machine, settings=short)


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
def test_each_version_keeps_its_files_and_rows_and_reads_equal_in_java(
    kind: Kind, oracle: JavaPaimon, tmp_path: Path
) -> None:
    numbers = itertools.count()
    of_kind = kind

    class ToldToJava(LifeCycle):
        kind = of_kind

        def at_end(self) -> None:
            assert_java_reads(oracle, self.world.reach, tmp_path / str(next(numbers)), self.world.seen)

    tell(ToldToJava)
