"""Random histories of tables of every kind; `python -m tests.life_cycle` runs many more.

One test is some histories of one kind: the same in every run, or new ones with PAIMON_TEST_EXPLORE=1.
"""

from __future__ import annotations

import itertools
from pathlib import Path

import pytest
from hypothesis import HealthCheck, Phase, seed, settings
from hypothesis.stateful import run_state_machine_as_test

from tests.life_cycle.machine import LifeCycle
from tests.life_cycle.replay import assert_java_reads
from tests.support.oracle import JavaPaimon
from tests.support.world.kinds import KINDS, Kind

HISTORIES, STEPS = 2, 40
ALL = [HealthCheck.too_slow, HealthCheck.filter_too_much, HealthCheck.data_too_large, HealthCheck.large_base_example]
of_each_kind = pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)


def tell(machine: type[LifeCycle], number: int) -> None:
    """Some histories of that machine; `number` gives others, unless new ones are wanted."""
    # The command makes failing histories short; here that would take too long.
    short = settings(
        max_examples=HISTORIES, stateful_step_count=STEPS, suppress_health_check=ALL, phases=[Phase.generate]
    )
    run_state_machine_as_test(seed(number)(machine) if short.derandomize else machine, settings=short)


@of_each_kind
def test_whoever_does_what_each_version_keeps_its_files_and_rows(kind: Kind) -> None:
    tell(type("History", (LifeCycle,), {"kind": kind}), KINDS.index(kind))


@of_each_kind
def test_each_version_that_is_left_reads_equal_in_java(
    kind: Kind, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    oracle: JavaPaimon = request.getfixturevalue("paimon2" if kind.is_newer else "oracle")
    numbers = itertools.count()

    def tell_java(life: LifeCycle) -> None:
        assert_java_reads(oracle, life.world, tmp_path / str(next(numbers)))

    told = {"kind": kind, "at_end": tell_java, "has_directories": False}
    tell(type("History", (LifeCycle,), told), 100 + KINDS.index(kind))
