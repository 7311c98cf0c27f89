"""What a commit, a plan and a scan cost after 20, 200 and 2,000 commits, with and without maintenance.

    python -m tests.bench.commits                 # to 2,000 commits, some minutes
    python -m tests.bench.commits --commits 20 200

Every commit adds ten rows of which half have the keys of earlier ones, out of 1,000 keys. With maintenance every tenth
is followed by a full compaction and by an expiry down to ten snapshots; manifests are merged in any case. Files are in
memory, so that the seconds are the processor's own; `calls` and `bytes` are the requests to a store. Compare
figures of one run only.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from rich.console import Console
from rich.table import Table as Grid

from paimon_engine import Table
from paimon_engine.env import Env, EnvConfig
from paimon_engine.executor import LocalExecutor
from paimon_engine.table.read.scan import plan_splits
from paimon_engine.table.state.snapshots import latest_snapshot
from paimon_engine.table.state.warehouse import create_table
from tests.support.metering import Metered

COMMITS = (20, 200, 2_000)
KEYS = 1_000
ROWS = 10
MAINTAINED_EVERY = 10
MEASURED = 5
"""Commits over which the cost of one is averaged: a tenth of them has to merge manifests."""

SCHEMA = pa.schema([pa.field("k", pa.int64(), nullable=False), ("v", pa.string())])
ROOT = "memory://bench/db.db/t"


@dataclass(frozen=True)
class Cost:
    """Of one thing: requests to the store by verb, bytes read, entries listed, processor seconds."""

    what: str
    commits: int
    calls: int
    bytes_read: int
    listed: int
    seconds: float


class Lake:
    """A table in memory, and what is done with it."""

    def __init__(self, *, keyed: bool, maintained: bool) -> None:
        self.storage = Metered()
        env, config = Env(self.storage), EnvConfig(ROOT)
        options = {"bucket": "1"} if keyed else {"bucket": "-1"}
        self.handle = create_table(
            env, config, ROOT, schema=SCHEMA, primary_keys=["k"] if keyed else [], options=options
        )
        self.table = Table(self.handle, LocalExecutor(1, env=env))
        self.maintained = maintained
        self.commits = 0
        self._random = np.random.default_rng(0)

    def commit(self, user: str | None = None) -> None:
        """One commit of a writer of its own; with a `user` as jobs make them, who look for what they did before."""
        keys = self._random.integers(0, KEYS, ROWS)
        rows = pa.table({"k": keys, "v": [f"v{key}" for key in keys]}, SCHEMA)
        self.table.write(rows, commit_user=user)
        self.commits += 1

    def commit_as_job(self) -> None:
        self.commit(f"job-{self.commits}")

    def maintain(self) -> None:
        self.table.compact(full=True)
        self.table.expire_snapshots(retain_max=MAINTAINED_EVERY, retain_min=1)

    def grow_to(self, commits: int) -> None:
        """The table after that many commits, just maintained where it is."""
        while self.commits < commits:
            self.commit()
            if self.maintained and self.commits % MAINTAINED_EVERY == 0:
                self.maintain()

    def cost(self, what: str, act: Callable[[], Any], times: int = 1) -> Cost:
        commits = self.commits
        self.storage.reset()
        begun = time.process_time()
        for _ in range(times):
            act()
        seconds = (time.process_time() - begun) / times
        calls = sum(self.storage.calls.values())
        return Cost(
            what, commits, calls // times, self.storage.bytes_read // times, self.storage.listed // times, seconds
        )

    def costs(self) -> list[Cost]:
        """What things cost now; leaves some commits behind."""
        return [
            self.cost("latest", lambda: latest_snapshot(self.handle)),
            self.cost("plan", lambda: plan_splits(self.handle, latest_snapshot(self.handle))),
            self.cost("scan", self.table.to_arrow),
            self.cost("commit", self.commit, MEASURED),
            self.cost("commit of a job", self.commit_as_job, MEASURED),
            *([self.cost("maintain", self.maintain)] if self.maintained else []),
        ]


def measured(*, keyed: bool, maintained: bool, commits: Sequence[int] = COMMITS) -> Iterator[Cost]:
    """Costs after each number of commits."""
    lake = Lake(keyed=keyed, maintained=maintained)
    for number in commits:
        lake.grow_to(number)
        yield from lake.costs()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--commits", type=int, nargs="+", default=COMMITS)
    parser.add_argument("--without", action="store_true", help="also without maintenance, which takes long")
    arguments = parser.parse_args()
    for keyed in (True, False):
        for maintained in (True, *([False] if arguments.without else [])):
            kind = "primary key" if keyed else "append"
            grid = Grid(title=f"{kind}, {'with' if maintained else 'without'} maintenance")
            for title in ("what", "after commits", "calls", "bytes read", "entries listed", "CPU ms"):
                grid.add_column(title, justify="left" if title == "what" else "right")
            for cost in measured(keyed=keyed, maintained=maintained, commits=arguments.commits):
                numbers = (cost.commits, cost.calls, cost.bytes_read, cost.listed)
                grid.add_row(cost.what, *(f"{number:,}" for number in numbers), f"{cost.seconds * 1000:.1f}")
            Console().print(grid)


if __name__ == "__main__":
    main()
