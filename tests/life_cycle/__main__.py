"""Many histories: `python -m tests.life_cycle --histories 200 [--kinds key,append] [--steps 60] [--seed 7] [--java]`."""

from __future__ import annotations

import argparse
import time

from hypothesis import HealthCheck, Phase, seed, settings
from hypothesis.stateful import run_state_machine_as_test

from tests.life_cycle.kinds import KINDS
from tests.life_cycle.machine import LifeCycle
from tests.life_cycle.world import HISTORY


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--histories", type=int, default=100)
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--kinds", default="")
    parser.add_argument("--no-shrink", action="store_true", help="show the first failing history as it is")
    given = parser.parse_args()
    wanted = given.kinds.split(",") if given.kinds else [kind.name for kind in KINDS]
    begun = time.monotonic()
    for kind in KINDS:
        if kind.name not in wanted:
            continue
        machine = seed(1_000 * given.seed + KINDS.index(kind))(type("LifeCycle", (LifeCycle,), {"kind": kind}))
        print(kind.name, flush=True)
        run_state_machine_as_test(
            machine,
            settings=settings(
                max_examples=given.histories,
                stateful_step_count=given.steps,
                deadline=None,
                database=None,
                phases=[Phase.generate] if given.no_shrink else [Phase.generate, Phase.shrink],
                suppress_health_check=list(HealthCheck),
            ),
        )
        print(f"  {time.monotonic() - begun:.0f} s", flush=True)
    for what, count in sorted(HISTORY.items()):
        print(f"{count:7} {what}")


if __name__ == "__main__":
    main()
