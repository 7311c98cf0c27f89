"""What each process of the fleet does, again and again: one act per role.

A worker records what was acknowledged to it: keys that must be there, keys that must be deleted, keys of unknown state,
and what each tag held when it was made. An act raises every error that must not happen; an
error that is normal while others run (a conflict, a snapshot that expired while it was read) it counts.
"""

from __future__ import annotations

import hashlib
import random
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import pyarrow as pa

from paimon_engine import ConflictError, NotFoundError, OutcomeUnknownError, Table, open_table

COLUMNS = pa.schema([pa.field("k", pa.string(), nullable=False), pa.field("v", pa.int64())])
ROWS = 3
PACE_S: Final = 0.25
"""Between the commits of a writer that is paced: three of them make twelve commits a second."""
_TAGS_MAX: Final = 4
_ORPHANS_OLDER_THAN_S: Final = 3.0


@dataclass
class Worker:
    """A process: its table, its name, and its account."""

    table: Table
    storage: Mapping[str, str]
    name: str
    chance: random.Random
    said: Counter[str] = field(default_factory=Counter)
    keys: list[str] = field(default_factory=list)
    gone: list[str] = field(default_factory=list)
    unsure: list[str] = field(default_factory=list)
    tags: dict[str, list[Any]] = field(default_factory=dict)

    def number(self) -> int:
        self.said["tries"] += 1
        return self.said["tries"]

    def said_of(self, act: Callable[[], Any], *, at_risk: Iterable[str] = ()) -> Any:
        """What `act` returns; None if it conflicted or its outcome is unknown, which is noted."""
        try:
            return act()
        except OutcomeUnknownError:
            # A snapshot that expired before its maker could look at it again.
            self.said["unknown"] += 1
            self.unsure += at_risk
        except ConflictError:
            self.said["conflicts"] += 1
        return None


def rows_of(keys: list[str], number: int) -> pa.Table:
    return pa.table([keys, [number] * len(keys)], schema=COLUMNS)


def _write(worker: Worker) -> None:
    number = worker.number()
    keys = [f"{worker.name}-{number}-{row}" for row in range(ROWS)]
    user = f"{worker.name}-{number}"
    if worker.said_of(lambda: worker.table.write(rows_of(keys, number), commit_user=user), at_risk=keys):
        worker.keys += keys
        worker.said["commits"] += 1


def _write_paced(worker: Worker) -> None:
    begun = time.monotonic()
    _write(worker)
    time.sleep(max(0.0, PACE_S - (time.monotonic() - begun)))


def _compact(worker: Worker) -> None:
    full = worker.chance.random() < 0.5
    result = worker.said_of(lambda: worker.table.compact(full=full))
    if result is not None:
        worker.said["conflicts"] += result.conflicts
        worker.said["compactions"] += result.status == "committed"


def _compact_fully(worker: Worker) -> None:
    """While only writers run, a compaction that gives up has lost races, no more."""
    try:
        worker.said["compactions"] += worker.table.compact(full=True).status == "committed"
    except ConflictError:
        worker.said["gave up"] += 1
    time.sleep(PACE_S)


def _expire(worker: Worker) -> None:
    result = worker.table.expire_snapshots(
        retain_max=worker.chance.randint(3, 12), retain_min=2, older_than=int(time.time() * 1000)
    )
    worker.said["expired"] += len(result.expired_snapshots)
    time.sleep(0.05)


def _tag(worker: Worker) -> None:
    """Tags the latest snapshot and notes its rows; every tag of its own reads what it did, until it is deleted."""
    name = f"{worker.name}-{worker.number()}"
    try:
        worker.table.create_tag(name)
    except NotFoundError:
        # The latest snapshot expired, or there is none yet.
        worker.said["nothing to tag"] += 1
        time.sleep(0.05)
        return
    worker.said["tags"] += 1
    worker.tags[name] = held(worker.table, name)
    if len(worker.tags) > _TAGS_MAX:
        oldest = worker.chance.choice([*worker.tags][:-1])
        assert held(worker.table, oldest) == worker.tags[oldest], f"tag {oldest} reads other rows than it did"
        del worker.tags[oldest]
        worker.table.delete_tag(oldest)


def held(table: Table, tag: str) -> list[Any]:
    """How many rows a tag has, and which."""
    keys = sorted(table.to_arrow(tag=tag, columns=["k"])["k"].to_pylist())
    return [len(keys), hashlib.sha256("\n".join(keys).encode()).hexdigest()]


def _branch(worker: Worker) -> None:
    """A branch of what the table is now, written to, merged, and deleted with its tag."""
    number = worker.number()
    name = f"{worker.name.replace('-', '_')}_{number}"
    keys = [f"{worker.name}-{number}-{row}" for row in range(ROWS)]
    try:
        worker.table.create_tag(name)
    except NotFoundError:
        time.sleep(0.05)
        return
    worker.table.create_branch(name, tag=name)
    branch = open_table(f"{worker.table.path}$branch_{name}", storage_options=worker.storage)
    branch.write(rows_of(keys, number))
    user = f"merge-{name}"
    if worker.said_of(lambda: worker.table.merge_branch(name, commit_user=user), at_risk=keys):
        worker.keys += keys
        worker.said["merged"] += 1
    worker.table.delete_branch(name)
    worker.table.delete_tag(name)


def _read(worker: Worker) -> None:
    """The latest state, or a tag: every key once, and all rows of a commit or none."""
    tags = worker.table.tags()["tag_name"].to_pylist() if worker.chance.random() < 0.5 else []
    try:
        found = worker.table.to_arrow(columns=["k"], **({"tag": worker.chance.choice(tags)} if tags else {}))
    except NotFoundError:
        # Expired while it was read, or the tag was deleted.
        worker.said["vanished"] += 1
        return
    counts = Counter(found["k"].to_pylist())
    twice = [key for key, count in counts.items() if count > 1]
    assert not twice, f"read twice: {twice[:5]}"
    commits = Counter(key.rpartition("-")[0] for key in counts if not key.startswith("delete"))
    torn = [commit for commit, count in commits.items() if count != ROWS]
    assert not torn, f"read in part: {torn[:5]}"
    worker.said["reads"] += 1


def _delete(worker: Worker) -> None:
    """Writes rows of its own, and deletes one of them."""
    _write(worker)
    if not worker.keys:
        return
    key = worker.keys.pop(worker.chance.randrange(len(worker.keys)))
    done = worker.said_of(lambda: worker.table.delete(f"k = '{key}'"), at_risk=[key])
    if done is not None:
        worker.gone.append(key)
        worker.said["deleted"] += 1
    elif key not in worker.unsure:
        worker.keys.append(key)


def _clean(worker: Worker) -> None:
    """Removes what nothing needs, as soon as it is a few seconds old."""
    older_than = int((time.time() - _ORPHANS_OLDER_THAN_S) * 1000)
    result = worker.table.remove_orphan_files(older_than)
    worker.said["orphans"] += result.files_deleted
    worker.said["clean-ups"] += result.status != "stopped"
    time.sleep(0.5)


ACTS: Mapping[str, Callable[[Worker], None]] = {
    "write": _write,
    "write paced": _write_paced,
    "compact": _compact,
    "compact fully": _compact_fully,
    "expire": _expire,
    "tag": _tag,
    "branch": _branch,
    "read": _read,
    "delete": _delete,
    "clean": _clean,
}
EIGHT: Final = (*["write"] * 5, *["compact"] * 2, "expire")
NINE: Final = ("write", "write", "compact", "tag", "branch", "expire", "clean", "read", "read", "delete")
STARVING: Final = (*["write paced"] * 3, "compact fully")
FLEETS: Final = {"eight": EIGHT, "nine": NINE, "starving": STARVING}
