"""Eight processes on one table: five write, two compact, one expires snapshots, for some time; then accounts are settled.

Every row has a key of its own, and the table has no primary key, or one: so that a row which is lost, or is there
twice, shows. The processes are forked off one that has imported everything.
"""

from __future__ import annotations

import json
import os
import random
import signal
import sys
import time
import traceback
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from paimon_engine import Catalog, ConflictError, OutcomeUnknownError, Table, open_table
from paimon_engine.env import EnvConfig
from paimon_engine.table.check import check_table
from paimon_engine.table.handle import load_table

COLUMNS = pa.schema([pa.field("k", pa.string(), nullable=False), pa.field("v", pa.int64())])
ROLES = ("write", "write", "write", "write", "write", "compact", "compact", "expire")
ROWS = 3
_PATIENT = {"commit.max-retries": "200"}
_LONGEST_COMMIT_S = 240


@dataclass(frozen=True)
class Account:
    """What all processes together did, and what the table holds."""

    commits: int
    compactions: int
    expired: int
    conflicts: int
    unknown: int
    rows: int

    def __str__(self) -> str:
        return (
            f"{self.commits} commits, {self.compactions} compactions, {self.expired} snapshots expired, "
            f"{self.conflicts} conflicts, {self.unknown} unknown outcomes, {self.rows} rows"
        )


def new_table(warehouse: str, *, keyed: bool, storage: Mapping[str, str] | None = None) -> Table:
    options = {"bucket": 2, "snapshot.num-retained.min": 3} if keyed else {"bucket": -1}
    catalog = Catalog(warehouse, storage_options=dict(storage or {}))
    return catalog.create_table("db.t", schema=COLUMNS, primary_keys=["k"] if keyed else [], options=options)


# ── what the processes do ───────────────────────────────────────────────────────────────────────


def _write(table: Table, name: str, said: Counter[str], chance: random.Random) -> list[str]:
    """One commit; the keys that must be there from now on."""
    number = said["tries"] = said["tries"] + 1
    keys = [f"{name}-{number}-{row}" for row in range(ROWS)]
    rows = pa.table([keys, [number] * ROWS], schema=COLUMNS)
    try:
        table.write(rows, commit_user=f"{name}-{number}")
    except ConflictError:
        said["conflicts"] += 1
        return []
    except OutcomeUnknownError:
        said["unknown"] += 1
        return []
    said["commits"] += 1
    return keys


def _compact(table: Table, _name: str, said: Counter[str], chance: random.Random) -> list[str]:
    try:
        result = table.compact(full=chance.random() < 0.5)
    except ConflictError:
        said["conflicts"] += 1
    except OutcomeUnknownError:
        # A snapshot that expired before its maker could look at it again.
        said["unknown"] += 1
    else:
        said["conflicts"] += result.conflicts
        said["compactions"] += result.status == "committed"
    return []


def _expire(table: Table, _name: str, said: Counter[str], chance: random.Random) -> list[str]:
    result = table.expire_snapshots(retain_max=chance.randint(3, 12), retain_min=2, older_than=int(time.time() * 1000))
    said["expired"] += len(result.expired_snapshots)
    time.sleep(0.05)
    return []


_ACTS: Mapping[str, Callable[[Table, str, Counter[str], random.Random], list[str]]] = {
    "write": _write,
    "compact": _compact,
    "expire": _expire,
}


def _child(path: str, storage: Mapping[str, str], role: str, name: str, seconds: float, pipe: int) -> None:
    said: Counter[str] = Counter()
    keys: list[str] = []
    failure = ""
    try:
        table = open_table(path, storage_options=storage, options=_PATIENT)
        chance = random.Random(name)
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            keys += _ACTS[role](table, name, said, chance)
    except BaseException:  # noqa: BLE001 - whatever it is, the parent is to hear of it
        failure = f"{role} {name}: {traceback.format_exc()}"
    with os.fdopen(pipe, "w") as out:
        json.dump({"said": said, "keys": keys, "failure": failure}, out)
    os._exit(0)


# ── the fleet ───────────────────────────────────────────────────────────────────────────────────


def sail(path: str, seconds: float, storage: Mapping[str, str]) -> list[dict[str, Any]]:
    """What each process says, once all have ended."""
    started = []
    for number, role in enumerate(ROLES):
        ours, theirs = os.pipe()
        child = os.fork()
        if child == 0:
            os.close(ours)
            signal.alarm(int(seconds) + _LONGEST_COMMIT_S)
            _child(path, storage, role, f"{role}-{number}", seconds, theirs)
        os.close(theirs)
        started.append((child, ours))
    reports = []
    for child, pipe in started:
        with os.fdopen(pipe) as said:
            text = said.read()
        os.waitpid(child, 0)
        reports.append(dict(json.loads(text or '{"failure": "a process died"}')))
    return reports


def settle(path: str, reports: list[dict[str, Any]], storage: Mapping[str, str]) -> Account:
    """The account. Raises AssertionError if an acknowledged row is not there once, or the table is not sound."""
    failures = [report["failure"] for report in reports if report["failure"]]
    assert not failures, failures[0]
    total: Counter[str] = sum((Counter(report["said"]) for report in reports), Counter())
    table = open_table(path, storage_options=storage)
    found = Counter(table.to_arrow(columns=["k"])["k"].to_pylist())
    twice = [key for key, count in found.items() if count > 1]
    assert not twice, f"there twice: {twice[:5]}"
    acknowledged = {key for report in reports for key in report["keys"]}
    assert acknowledged <= found.keys(), f"lost: {sorted(acknowledged - found.keys())[:5]}"
    assert len(found) <= len(acknowledged) + ROWS * total["unknown"], "rows that nobody has acknowledged"
    assert check_table(load_table(path, EnvConfig(path, storage))) == []
    return Account(
        total["commits"], total["compactions"], total["expired"], total["conflicts"], total["unknown"], len(found)
    )


def main() -> None:
    """`fleet.py`'s own process: path, seconds and options of the store, as JSON on standard input."""
    given = json.load(sys.stdin)
    print(json.dumps(sail(given["path"], given["seconds"], given["storage"])))


if __name__ == "__main__":
    main()
