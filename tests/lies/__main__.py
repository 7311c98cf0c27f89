"""The longer run: `python -m tests.lies` carries out every action over every lie of a store, some thousand trials.

`--scenarios` chooses some by a part of their names. Findings are told at the end of their scenario.
"""

from __future__ import annotations

import argparse
import logging
from collections import Counter
from collections.abc import Callable
from functools import partial

from tests.lies.trial import Stage, run_again, run_careless, run_trial
from tests.support.scenarios import BY_NAME


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.lies", description=__doc__)
    parser.add_argument("--scenarios", nargs="+", default=[""])
    given = parser.parse_args()
    logging.disable(logging.CRITICAL)
    total: Counter[str] = Counter()
    failures = 0
    for name in (name for name in BY_NAME if any(part in name for part in given.scenarios)):
        outcomes, wrong = Counter[str](), []
        stage = Stage(BY_NAME[name])
        trials: list[tuple[str, Callable[[], str]]] = [("careless", partial(run_careless, stage))]
        trials += [(lie.name, partial(run_trial, stage, lie)) for lie in stage.lies()]
        trials += [(f"again: {lie.name}", partial(run_again, stage, lie)) for lie in stage.lies()]
        for what, trial in trials:
            try:
                outcomes[trial()] += 1
            except Exception as error:  # noqa: BLE001 - whatever it is, it is a finding
                wrong.append(f"  {what}: {error!r:.700}")
        print(f"{name}: {dict(outcomes)}", *wrong, sep="\n", flush=True)
        total += outcomes
        failures += len(wrong)
    print(f"{total.total() + failures} trials: {dict(total)}, {failures} findings")
    raise SystemExit(failures > 0)


if __name__ == "__main__":
    main()
