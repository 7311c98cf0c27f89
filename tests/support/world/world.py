"""Where a table of a test lies, who looks at it, and when."""

from __future__ import annotations

import copy
import itertools
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

import pyarrow as pa

from paimon_engine import Table
from paimon_engine.action import Context
from paimon_engine.action_table import ACTIONS, Action, name_of
from paimon_engine.env import Env, EnvConfig, now_ms
from paimon_engine.executor import LocalExecutor
from paimon_engine.storage import MemoryStorage, storage_for
from paimon_engine.table.state.handle import TableHandle, load_table
from paimon_engine.table.state.warehouse import create_table

ROOT = "memory://faults/db.db/t"
MAIN = "main"
START_MS = 1_800_000_000_000
HOUR_MS = 3_600_000
QUICK = {"commit.min-retry-wait": "0 ms", "commit.max-retry-wait": "0 ms"}
COLUMNS = pa.schema([pa.field("p", pa.string()), pa.field("k", pa.int64()), pa.field("v", pa.int64())])


@dataclass
class Clock:
    """Gives the time that a test has set, in epoch milliseconds."""

    now_ms: int

    def __call__(self) -> int:
        return self.now_ms


class Place:
    """A store with one table, a clock that tests move, and ids in a row: what is done is the same in every run.

    `inner` is the store as it is, by default in memory. `storage` is what the engine sees: that, or a store around it
    that fails, lies, kills or stops its callers. `threads` read, and carry out tasks.
    """

    def __init__(
        self, store: Any = None, *, now_ms: int = START_MS, root: str = ROOT, threads: int = 1, first_id: int = 0
    ) -> None:
        self.root, self.threads = root, threads
        self.config = EnvConfig(root)
        self.clock: Any = Clock(now_ms)
        self.numbers = itertools.count(first_id)
        self.inner: Any = MemoryStorage(self.clock) if store is None else store
        self.storage: Any = self.inner
        self._executor: Any = None

    @property
    def now_ms(self) -> int:
        return self.clock()

    @now_ms.setter
    def now_ms(self, value: int) -> None:
        self.clock.now_ms = value

    @property
    def env(self) -> Env:
        """With one thread, calls come in one order."""
        return Env(self.storage, self.clock, self.new_id, reader_threads=self.threads)

    def new_id(self) -> str:
        return f"{next(self.numbers):08x}-0000-4000-8000-000000000000"

    def through(self, storage: Any) -> Self:
        """The same place seen through another storage."""
        self.storage = storage
        return self

    def beside(self, storage: Any = None) -> Self:
        """Another process at the same place, which sees that storage: by default the store as it is."""
        other = copy.copy(self)
        return other.through(self.inner if storage is None else storage)

    # ── the table ───────────────────────────────────────────────────────────────────────────────

    def on(self, branch: str = MAIN, **options: str) -> TableHandle:
        return load_table(self.root, self.config, env=self.env, branch=branch, options=options)

    @property
    def handle(self) -> TableHandle:
        """The main branch, opened again."""
        return self.on()

    @property
    def executor(self) -> Any:
        """Threads, or what a test has set."""
        return self._executor or LocalExecutor(self.threads, env=self.env)

    @executor.setter
    def executor(self, executor: Any) -> None:
        self._executor = executor

    def table(self, branch: str = MAIN, **options: str) -> Table:
        return Table(self.on(branch, **options), self.executor)

    def make(
        self, schema: pa.Schema, keys: Sequence[str], partition_keys: Sequence[str], options: Mapping[str, str]
    ) -> None:
        """The table, with no wait between tries of a commit."""
        create_table(
            self.env,
            self.config,
            self.root,
            schema=schema,
            primary_keys=keys,
            partition_keys=partition_keys,
            options={**QUICK, **options},
        )

    def run(
        self, spec: Action, user: str | None = None, branch: str = MAIN, *, table: TableHandle | None = None
    ) -> Any:
        """Carries out an action as a job does; on a table that was opened earlier, if it is given."""
        handle = self.on(branch) if table is None else table
        context = Context(handle, self.executor, user, None, open_store=lambda _: self.env)
        return ACTIONS[name_of(spec)].run(context, spec)


class World(Place):
    """A table of partitions, keys and values: a row is a number by a number. Its actions are those of one job."""

    def run(
        self, spec: Action, user: str | None = "job", branch: str = MAIN, *, table: TableHandle | None = None
    ) -> Any:
        return super().run(spec, user, branch, table=table)

    def create(self, *, keys: Sequence[str] = (), by: Sequence[str] = ("p",), **options: Any) -> None:
        """The table, with `COLUMNS`; `a__b_c` in the name of an option means `a.b-c`."""
        given = {name.replace("__", ".").replace("_", "-"): str(value) for name, value in options.items()}
        self.make(COLUMNS, keys, by, given)

    def write(self, rows: Mapping[int, int], p: str = "a", user: str | None = None, **kwargs: Any) -> None:
        """One commit, an hour after the one before."""
        self.now_ms += HOUR_MS
        self.table(kwargs.pop("branch", MAIN)).write(rows_of(rows, p), commit_user=user, **kwargs)


class Real(Place):
    """The table at an address, by the machine's clock and with unique ids; `options` are the store's."""

    def __init__(self, root: str, options: Mapping[str, str] | None = None) -> None:
        super().__init__(storage_for(root, options or {}), root=root, threads=os.cpu_count() or 1)
        self.config = EnvConfig(root, options or {})
        self.clock = now_ms

    @property
    def env(self) -> Env:
        return Env(self.storage)


def rows_of(rows: Mapping[int, int], p: str = "a") -> pa.Table:
    return pa.table([[p] * len(rows), list(rows), list(rows.values())], schema=COLUMNS)
