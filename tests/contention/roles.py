"""What each process of the fleet does, again and again: one act per role.

A worker keeps a model of what was acknowledged to it: its rows, those whose state is unknown, and what each tag held
when it was made. An act raises whatever nobody should meet; what is legitimate beside others (a conflict, a snapshot
that expired while it was read) it counts.
"""

from __future__ import annotations

import hashlib
import random
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Final

from paimon_engine import ConflictError, NotFoundError, OutcomeUnknownError, Table
from paimon_engine.actions.compact import Compact
from paimon_engine.actions.merge_branch import MergeBranch
from tests.support.world import Real, verbs
from tests.support.world.kinds import Kind
from tests.support.world.model import Model
from tests.support.world.verbs import Put, Verb

ROWS = 3
PACE_S: Final = 0.25
"""Between the commits of a writer that is paced: three of them make twelve commits a second."""
_TAGS_MAX: Final = 4
_ORPHANS_OLDER_THAN_S: Final = 3.0


@dataclass
class Worker:
    """A process: the place of its table, its name, and its account."""

    location: Real
    kind: Kind
    name: str
    chance: random.Random
    tally: Counter[str] = field(default_factory=Counter)
    unsure: list[str] = field(default_factory=list)
    tags: dict[str, list[Any]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.model = Model.of(self.kind)

    @cached_property
    def table(self) -> Table:
        return self.location.table()

    def number(self) -> int:
        self.tally["tries"] += 1
        return self.tally["tries"]

    def put(self, number: int) -> Put:
        """Rows of keys that nobody else has."""
        return Put([("+I", {"k": f"{self.name}-{number}-{row}", "v": number}) for row in range(ROWS)])

    def do(self, verb: Verb, user: str | None = None, *, at_risk: Sequence[str] = ()) -> Any:
        """The result, and the model has it too; None if it conflicted or its outcome is unknown, which is noted.

        `at_risk` are the keys that may be there or not when nobody knows whether it was done.
        """
        try:
            result = verb.on(self.table, user)
        except OutcomeUnknownError:
            # A snapshot that expired before its maker could look at it again.
            self.tally["unknown"] += 1
            self.unsure += at_risk
            return None
        except ConflictError:
            self.tally["conflicts"] += 1
            return None
        verb.in_model(self.model)
        return result


def _keys(put: Put) -> list[str]:
    return [row["k"] for _, row in put.changes]


def _write(worker: Worker) -> None:
    number = worker.number()
    put = worker.put(number)
    if worker.do(verbs.write(worker.kind, put), f"{worker.name}-{number}", at_risk=_keys(put)):
        worker.tally["commits"] += 1


def _write_paced(worker: Worker) -> None:
    begun = time.monotonic()
    _write(worker)
    time.sleep(max(0.0, PACE_S - (time.monotonic() - begun)))


def _compact(worker: Worker) -> None:
    full = worker.chance.random() < 0.5
    result = worker.do(verbs.same_rows("compact", Compact(full=full)))
    if result is not None:
        worker.tally["conflicts"] += result.conflicts
        worker.tally["compactions"] += result.status == "committed"


def _compact_fully(worker: Worker) -> None:
    """While only writers run, a compaction that gives up has lost races, no more."""
    try:
        worker.tally["compactions"] += worker.table.compact(full=True).status == "committed"
    except ConflictError:
        worker.tally["gave up"] += 1
    time.sleep(PACE_S)


def _expire(worker: Worker) -> None:
    result = worker.table.expire_snapshots(
        retain_max=worker.chance.randint(3, 12), retain_min=2, older_than=int(time.time() * 1000)
    )
    worker.tally["expired"] += len(result.expired_snapshots)
    time.sleep(0.05)


def _tag(worker: Worker) -> None:
    """Tags the latest snapshot and notes its rows; every tag of its own reads what it did, until it is deleted."""
    name = f"{worker.name}-{worker.number()}"
    try:
        worker.table.create_tag(name)
    except NotFoundError:
        # The latest snapshot expired, or there is none yet.
        worker.tally["nothing to tag"] += 1
        time.sleep(0.05)
        return
    worker.tally["tags"] += 1
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
    put = worker.put(number)
    try:
        worker.table.create_tag(name)
    except NotFoundError:
        time.sleep(0.05)
        return
    worker.table.create_branch(name, tag=name)
    write = verbs.write(worker.kind, put)
    write.on(worker.location.table(name))
    merge = Verb("merge branch", MergeBranch(name), write.change)
    if worker.do(merge, f"merge-{name}", at_risk=_keys(put)):
        worker.tally["merged"] += 1
    worker.table.delete_branch(name)
    worker.table.delete_tag(name)


def _read(worker: Worker) -> None:
    """The latest state, or a tag: every key once, and all rows of a commit or none."""
    tags = worker.table.tags()["tag_name"].to_pylist() if worker.chance.random() < 0.5 else []
    try:
        found = worker.table.to_arrow(columns=["k"], **({"tag": worker.chance.choice(tags)} if tags else {}))
    except NotFoundError:
        # Expired while it was read, or the tag was deleted.
        worker.tally["vanished"] += 1
        return
    counts = Counter(found["k"].to_pylist())
    twice = [key for key, count in counts.items() if count > 1]
    assert not twice, f"read twice: {twice[:5]}"
    commits = Counter(key.rpartition("-")[0] for key in counts if not key.startswith("delete"))
    torn = [commit for commit, count in commits.items() if count != ROWS]
    assert not torn, f"read in part: {torn[:5]}"
    worker.tally["reads"] += 1


def _delete(worker: Worker) -> None:
    """Writes rows of its own, and deletes one of them."""
    _write(worker)
    rows = worker.model.main.rows.rows
    if not rows:
        return
    key = worker.chance.choice(rows)["k"]
    if worker.do(verbs.delete_rows(f"k = '{key}'", lambda row: row["k"] == key), at_risk=[key]) is not None:
        worker.tally["deleted"] += 1


def _clean(worker: Worker) -> None:
    """Removes what nothing needs, as soon as it is a few seconds old."""
    older_than = int((time.time() - _ORPHANS_OLDER_THAN_S) * 1000)
    result = worker.table.remove_orphan_files(older_than)
    worker.tally["orphans"] += result.files_deleted
    worker.tally["clean-ups"] += result.status != "stopped"
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
