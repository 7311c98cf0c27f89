"""The longer run: `python -m tests.faults` fails every call of every scenario in every way, some thousand trials.

`--scenarios` chooses some by a part of their names, `--every 5` takes every fifth trial. Failures are told at the end
of their scenario, by number of the call and way.
"""

from __future__ import annotations

import argparse
import logging
import time
from collections import Counter

from tests.faults.trial import Stage, run_trial
from tests.support.scenarios import SCENARIOS


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.faults", description=__doc__)
    parser.add_argument("--scenarios", nargs="+", default=[""])
    parser.add_argument("--every", type=int, default=1)
    given = parser.parse_args()
    logging.disable(logging.WARNING)
    total: Counter[str] = Counter()
    failures = 0
    for scenario in SCENARIOS:
        if not any(part in scenario.name for part in given.scenarios):
            continue
        begun, outcomes, wrong = time.monotonic(), Counter[str](), []
        stage = Stage(scenario)
        for number, way in list(stage.trials())[len(total) % given.every :: given.every]:
            try:
                outcomes[run_trial(stage, number, way)] += 1
            except Exception as error:  # noqa: BLE001 - whatever it is, it is a finding
                wrong.append(f"  call {number} {stage.calls[number]}, {way}: {error!r:.500}")
        seconds = time.monotonic() - begun
        print(
            f"{scenario.name}: {len(stage.calls)} calls, {dict(outcomes)}, {seconds:.0f} s",
            *wrong,
            sep="\n",
            flush=True,
        )
        total += outcomes
        failures += len(wrong)
    print(f"{total.total() + failures} faults: {dict(total)}, {failures} findings")
    raise SystemExit(failures > 0)


if __name__ == "__main__":
    main()
