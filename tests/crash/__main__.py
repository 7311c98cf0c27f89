"""The longer run: `python -m tests.crash --kills 500`, about a second per kill; `--seed` for other histories.

Every kind of table has its share of the kills, in campaigns of a fresh table each. A failure names the campaign, which
`--kinds KIND --seed SEED` repeats, and ends the run with exit code 1.
"""

from __future__ import annotations

import argparse
import itertools
import tempfile
import time
from pathlib import Path

from tests.crash.campaign import KINDS, Campaign, Tally, worker

_KILLS_PER_CAMPAIGN = 50


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.crash", description=__doc__)
    parser.add_argument("--kills", type=int, default=500)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--kinds", nargs="+", choices=list(KINDS), default=list(KINDS))
    given = parser.parse_args()
    begun, total = time.monotonic(), Tally()
    with worker() as forking:
        for number, kind in zip(itertools.count(), itertools.cycle(given.kinds), strict=False):
            left = given.kills - total.kills.total()
            if left <= 0:
                break
            seed = given.seed + number // len(given.kinds)
            with tempfile.TemporaryDirectory(prefix="paimon-crash-") as directory:
                campaign = Campaign(Path(directory), kind, seed, forking)
                print(f"{total.kills.total()} kills; {kind}, seed {seed}", flush=True)
                try:
                    tally = campaign.run(min(left, _KILLS_PER_CAMPAIGN))
                except Exception as error:
                    print(f"FAILED: {kind}, seed {seed}: {error!r:.2000}", flush=True)
                    raise
            total.kills += tally.kills
            total.steps += tally.steps
    print(f"{total}; {time.monotonic() - begun:.0f} s; nothing lost")


if __name__ == "__main__":
    main()
