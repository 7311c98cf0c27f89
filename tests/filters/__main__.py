"""The longer run: `python -m tests.filters --seconds 600 --seed 7`.

Files, tables, and tables that Java wrote in turn, each with eight filters. A failure is printed with its seed, which
`PAIMON_TEST_SEEDS` repeats in the suite, and the run goes on; exit code 1 if there was any.
"""

from __future__ import annotations

import argparse
import tempfile
import time
import traceback
import warnings
from collections import Counter
from collections.abc import Callable
from itertools import count
from pathlib import Path

from tests.filters.trial import try_case, try_file, try_table
from tests.support.corpus import case_names

_SHOWN_MAX = 3_000


def _table(seed: int, counts: Counter[str]) -> None:
    with tempfile.TemporaryDirectory(prefix="paimon-filters-") as directory:
        try_table(seed, Path(directory), counts)


def _case(seed: int, counts: Counter[str]) -> None:
    names = case_names()
    if names:
        try_case(seed, names[seed % len(names)], counts)


_TRIALS: dict[str, Callable[[int, Counter[str]], None]] = {"files": try_file, "tables": _table, "java": _case}


def main() -> None:
    """Runs what the command line says."""
    parser = argparse.ArgumentParser(prog="python -m tests.filters", description=__doc__)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", choices=list(_TRIALS))
    given = parser.parse_args()
    warnings.simplefilter("ignore")
    begun, counts, findings = time.monotonic(), Counter[str](), 0
    for seed in count(given.seed):
        if time.monotonic() - begun > given.seconds:
            break
        for kind, trial in _TRIALS.items():
            if given.only not in (None, kind):
                continue
            try:
                trial(seed, counts)
            except Exception as error:  # noqa: BLE001 - whatever it is, it is a finding
                findings += 1
                where = "".join(traceback.format_tb(error.__traceback__)[-3:])
                print(f"{kind}, seed {seed}: {error!r:.{_SHOWN_MAX}}\n{where}", flush=True)
    print(f"seeds {given.seed} to {seed - 1}: {dict(counts)}, {findings} findings")
    raise SystemExit(findings > 0 or not counts)


if __name__ == "__main__":
    main()
