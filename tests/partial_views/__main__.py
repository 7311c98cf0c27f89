"""The whole campaign: `python -m tests.partial_views` tries every action on every part of every table.

`--subjects` and `--deeds` choose some by a part of their names, `--seeds` says how many random parts there are. What is
lost is told at once; the exit code is 1 if anything is.
"""

from __future__ import annotations

import argparse
import logging
import time

from tests.partial_views.subjects import SUBJECTS, whole
from tests.partial_views.trial import DEEDS, can_know, run_trial
from tests.partial_views.views import views


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.partial_views", description=__doc__)
    parser.add_argument("--subjects", nargs="+", default=[""])
    parser.add_argument("--deeds", nargs="+", default=[""])
    parser.add_argument("--seeds", type=int, default=100)
    given = parser.parse_args()
    logging.disable(logging.CRITICAL)
    total = lost = 0
    for subject in (name for name in SUBJECTS if any(part in name for part in given.subjects)):
        paths = sorted(whole(subject).files)
        for deed in (name for name in DEEDS if any(part in name for part in given.deeds)):
            begun, tried = time.monotonic(), 0
            for view in views(paths, seeds=range(given.seeds)):
                if not can_know(deed, view, paths):
                    continue
                outcome = run_trial(subject, view, deed)
                tried += 1
                if outcome.lost:
                    lost += 1
                    print(f"LOST {subject}, {view.name}, {deed}: {outcome.lost}\n    {outcome.said[:400]}")
            total += tried
            print(f"{subject}, {deed}: {tried} trials in {time.monotonic() - begun:.0f} s", flush=True)
    print(f"{total} trials, {lost} with a loss")
    raise SystemExit(1 if lost else 0)


if __name__ == "__main__":
    main()
