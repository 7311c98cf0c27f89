"""Many histories: `PAIMON_REFERENCE=… python -m tests.life_cycle --histories 200 [--kinds key,append] [--seed 7]`.

Each kind of table gets as many histories, and Java reads what is left at the end of every one of them where
PAIMON_REFERENCE names the reference. A failing history is made short and printed, and the next kind follows.

With `--objects` the store has no directories. With `--pairs` every action is stopped before each of its calls of the
store (or each third, `--every 3`) while every other one runs, with `--expired` on a table whose earlier snapshots have
expired. Exit 1 if anything failed.
"""

from __future__ import annotations

import argparse
import itertools
import os
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from hypothesis import HealthCheck, Phase, seed, settings
from hypothesis.stateful import run_state_machine_as_test

from tests.life_cycle.machine import LifeCycle
from tests.life_cycle.pairs import FIRST, SECOND, sweep
from tests.life_cycle.replay import assert_java_reads
from tests.life_cycle.world import HISTORY
from tests.support.oracle import JavaPaimon, start_oracle
from tests.support.paimon2 import start_paimon2
from tests.support.world.kinds import KINDS, Kind, of_name

Told = Callable[[LifeCycle], None]


def main() -> int:
    """Runs what the command line says; returns the exit code."""
    parser = argparse.ArgumentParser(prog="python -m tests.life_cycle", description=__doc__)
    parser.add_argument("--histories", type=int, default=100)
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--kinds", default="")
    parser.add_argument("--objects", action="store_true", help="on a store without directories")
    parser.add_argument("--no-shrink", action="store_true", help="show a failing history as it is")
    parser.add_argument("--pairs", action="store_true", help="pairs of actions, not histories")
    parser.add_argument("--every", type=int, default=1, help="with --pairs: stop before each n-th call only")
    parser.add_argument("--expired", action="store_true", help="with --pairs: only tags and branches keep what was")
    given = parser.parse_args()
    kinds = [of_name(name) for name in given.kinds.split(",")] if given.kinds else list(KINDS)
    failed = 0
    with _java() as reported:
        for kind in kinds:
            begun = time.monotonic()
            failed += _pairs(kind, given) if given.pairs else _histories(kind, reported, given)
            print(f"{kind.name}: {time.monotonic() - begun:.0f} s", flush=True)
    for what, count in sorted(HISTORY.items()):
        print(f"{count:7} {what}")
    print(f"{failed} failed")
    return 1 if failed else 0


def _histories(kind: Kind, reported: Told, given: argparse.Namespace) -> int:
    told = {"kind": kind, "at_end": reported, "has_directories": not given.objects}
    machine = type("History", (LifeCycle,), told)
    phases = [Phase.generate] if given.no_shrink else [Phase.generate, Phase.shrink]
    try:
        run_state_machine_as_test(
            seed(1_000 * given.seed + KINDS.index(kind))(machine),
            settings=settings(
                max_examples=given.histories,
                stateful_step_count=given.steps,
                deadline=None,
                database=None,
                suppress_health_check=list(HealthCheck),
                phases=phases,
            ),
        )
    except Exception:  # noqa: BLE001 - whatever it is, the next kind follows
        traceback.print_exc()
        return 1
    return 0


def _pairs(kind: Kind, given: argparse.Namespace) -> int:
    failed = 0
    for first, second in itertools.product(FIRST, SECOND):
        try:
            count = sweep(kind, first, second, itertools.count(step=given.every), expired=given.expired)
        except Exception:  # noqa: BLE001 - whatever it is, the next pair follows
            traceback.print_exc()
            failed += 1
        else:
            print(f"  {first} and {second}: {count} ways", flush=True)
    return failed


@contextmanager
def _java() -> Iterator[Told]:
    """What to do at the end of a history."""
    if "PAIMON_REFERENCE" not in os.environ:
        print("PAIMON_REFERENCE is not set: Java reads nothing")
        yield lambda life: None
        return
    with tempfile.TemporaryDirectory(prefix="life-cycle-") as directory:
        started: dict[bool, Iterator[JavaPaimon]] = {}
        readers: dict[bool, JavaPaimon] = {}

        def tell(life: LifeCycle) -> None:
            is_newer = life.kind.is_newer
            if is_newer not in readers:
                start = start_paimon2 if is_newer else start_oracle
                started[is_newer] = start(Path(directory) / f"java-{is_newer}.log")
                readers[is_newer] = next(started[is_newer])
            with tempfile.TemporaryDirectory(dir=directory) as location:
                assert_java_reads(readers[is_newer], life.world, Path(location))

        yield tell
        for java in started.values():
            next(java, None)


if __name__ == "__main__":
    sys.exit(main())
