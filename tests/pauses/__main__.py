"""The longer run: `python -m tests.pauses` holds up every writing action at every call, beside every clean-up.

`--scenarios` chooses some by a part of their names, `--every 5` takes every fifth pause.
"""

from __future__ import annotations

import argparse
import logging
import time
from collections import Counter

from tests.faults.trial import Stage
from tests.pauses.trial import WRITING, pauses, run_pause
from tests.support.scenarios import BY_NAME


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.pauses", description=__doc__)
    parser.add_argument("--scenarios", nargs="+", default=[""])
    parser.add_argument("--every", type=int, default=1)
    given = parser.parse_args()
    logging.disable(logging.WARNING)
    total: Counter[str] = Counter()
    failures = 0
    for name in WRITING:
        if not any(part in name for part in given.scenarios):
            continue
        begun, outcomes, wrong = time.monotonic(), Counter[str](), []
        stage = Stage(BY_NAME[name])
        for pause in list(pauses(stage))[:: given.every]:
            try:
                outcomes[run_pause(stage, pause)] += 1
            except Exception as error:  # noqa: BLE001 - whatever it is, it is a finding
                wrong.append(f"  {pause} {stage.calls[pause.number]}: {error!r:.500}")
        seconds = time.monotonic() - begun
        print(f"{name}: {len(stage.calls)} calls, {dict(outcomes)}, {seconds:.0f} s", *wrong, sep="\n", flush=True)
        total += outcomes
        failures += len(wrong)
    print(f"{total.total() + failures} pauses: {dict(total)}, {failures} findings")
    raise SystemExit(failures > 0)


if __name__ == "__main__":
    main()
