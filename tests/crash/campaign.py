"""A campaign: steps on a real table on disk by processes that are killed, and what must be true after every kill.

After a kill: the table verifies; nothing that anything needs is deleted; its rows are those before or after the step;
its tags read as they did. The job repeated under the same commit user, and perhaps killed again, then finishes: rows,
tags and branches are those of the model, and no commit is there twice. Now and then orphans are removed, and no file
may be left that nothing needs, and every snapshot is read.
"""

from __future__ import annotations

import json
import random
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from paimon_engine import Catalog, Table
from paimon_engine.jobs import Job, TableRef
from paimon_engine.table.state.snapshots import HELD_PREFIX
from tests.crash.steps import Steps
from tests.support.world import COLUMNS, MAIN, Real
from tests.support.world.check import assert_nothing_left, assert_sound, commits_of
from tests.support.world.kinds import KILLED
from tests.support.world.model import BranchModel, Model, Rows
from tests.support.world.verbs import Put, Verb

KINDS = {kind.name: kind for kind in KILLED}
_STEPS_BETWEEN_CLEANINGS = 8
_CHANGES_AT_FIRST = 40
_NAMES = COLUMNS.names
_OWN_TAGS = ("rollback-to-as-latest-", HELD_PREFIX)
"""How the names of tags begin that an action makes for itself."""
_ANSWER_MAX_S = 120


@dataclass
class Tally:
    """What a campaign did."""

    kills: Counter[str] = field(default_factory=Counter)
    steps: Counter[str] = field(default_factory=Counter)
    finished_before_the_kill: int = 0

    def __str__(self) -> str:
        killed = ", ".join(f"{name} {count}" for name, count in sorted(self.kills.items()))
        return f"{self.kills.total()} kills in {self.steps.total()} steps: {killed}"


class Worker:
    """The process that forks, and is never killed itself."""

    def __init__(self) -> None:
        command = [sys.executable, "-m", "tests.crash.worker"]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def ask(self, request: dict[str, Any]) -> dict[str, Any]:
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.write(json.dumps(request) + "\n")
        self._process.stdin.flush()
        return dict(json.loads(self._process.stdout.readline()))

    def close(self) -> None:
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.close()
        self._process.wait(timeout=_ANSWER_MAX_S)
        self._process.stdout.close()


@contextmanager
def worker() -> Iterator[Worker]:
    started = Worker()
    try:
        yield started
    finally:
        started.close()


class Campaign:
    """One table of a kind; `seed` decides on steps and kills."""

    def __init__(self, directory: Path, kind: str, seed: int, worker: Worker) -> None:
        self._chance = random.Random(f"{kind} {seed}")
        self._worker = worker
        self._directory = directory
        self._kind = KINDS[kind]
        self.location = Real(self._kind.create(Catalog(str(directory / "lake"))).path)
        self._steps = Steps(self._chance, self._kind)
        self.model = Model.of(self._kind)
        self.tally = Tally()
        self._changes: dict[str, int] = {}
        self._ever: set[tuple[Any, ...]] = set()
        """All rows that ever were."""

    def run(self, kills: int) -> Tally:
        """Steps until so many processes were killed."""
        while self.tally.kills.total() < kills:
            self.step()
            if self.tally.steps.total() % _STEPS_BETWEEN_CLEANINGS == 0:
                self.clean()
        self.clean()
        return self.tally

    # ── a step ──────────────────────────────────────────────────────────────────────────────────

    def step(self) -> None:
        """One step, killed once, twice or not at all, and then finished."""
        step = self._steps.draw(self.model)
        self.carry_out(step, lambda: self._death(step))

    def carry_out(self, step: Verb, death: Callable[[], dict[str, Any]]) -> None:
        """That step, of which the first two tries die as `death` says if they are not done before."""
        number = self.tally.steps.total()
        self.tally.steps[step.name] += 1
        user, before, after = f"job-{number}", self.model.copy(), self.model.copy()
        step.in_model(after)
        for branch in after.all_branches():
            self._ever |= branch.rows.counted(_NAMES).keys()
        request = self._request(step, user, number)
        for tries_left in reversed(range(3)):
            reply = self._worker.ask({**request, **(death() if tries_left else {})})
            if reply:
                break
            self.tally.kills[step.name] += 1
            self._check_between(step, before, after)
        assert "error" not in reply, f"{step} of {user}: {reply}"
        self._changes[step.name] = max(reply["changes"], self._changes.get(step.name, 0))
        self.model = after
        self._check_after(step, user)

    def _request(self, step: Verb, user: str, number: int) -> dict[str, Any]:
        """The verb as a job, whose rows are in a file; or a write to a branch, which jobs do not know."""
        spec, root = step.spec, self.location.root
        if isinstance(spec, Put):
            spec = spec.job(self._kind.schema, str(self._directory / f"source-{number}.parquet"))
            if step.branch != MAIN:
                return {"root": root, "branch": step.branch, "source": spec.source, "user": user}
        return {"root": root, "job": Job(TableRef(path=root), spec, user).to_json()}

    def _death(self, step: Verb) -> dict[str, Any]:
        if self._chance.random() < 0.8:
            return {"at": self._chance.randrange(self._changes.get(step.name, _CHANGES_AT_FIRST) + 1)}
        return {"after_ms": self._chance.uniform(1, 120)}

    # ── what must hold ──────────────────────────────────────────────────────────────────────────

    def _check_between(self, step: Verb, before: Model, after: Model) -> None:
        where = f"killed in {step.name}"
        assert_sound(self.location.handle, may_lack_snapshots=step.name in ("roll back to tag", "fast-forward"))
        table = self.location.table()
        rows = self._read(table)
        if self._kind.hides:
            # What is read is never made up, but may be older than all snapshots that are left.
            assert rows.counted(_NAMES).keys() <= self._ever, where
        elif step.passes_through:
            known = [
                after.main.rows,
                *(found for branch in before.all_branches() for found in (branch.rows, *branch.at.values())),
            ]
            assert rows in known, f"{where}: rows that never were"
        else:
            assert rows in (before.main.rows, after.main.rows), f"{where}: rows neither old nor new"
        for name in table.tags()["tag_name"].to_pylist():
            if not name.startswith(_OWN_TAGS):
                found = [branch.tagged[name] for branch in (before.main, after.main) if name in branch.tagged]
                self._check_rows(self._read(table, tag=name), found, f"{where}: tag {name}")

    def _check_after(self, step: Verb, user: str) -> None:
        assert_sound(self.location.handle)
        table = self.location.table()
        self._check_branch(self.model.main, table, step.name)
        assert set(table.branches()["branch_name"].to_pylist()) == self.model.branches.keys()
        for name, branch in self.model.branches.items():
            self._check_branch(branch, self.location.table(name), f"{step.name}, branch {name}")
        assert set(commits_of(table, user).values()) <= {1}, f"{step.name} was done twice"

    def _check_branch(self, branch: BranchModel, table: Table, where: str) -> None:
        self._check_rows(self._read(table), [branch.rows], where)
        branch.saw(table.snapshots()["snapshot_id"].to_pylist())
        tags = {item["tag_name"]: item["snapshot_id"] for item in table.tags().to_pylist()}
        tags = {name: number for name, number in tags.items() if not name.startswith(_OWN_TAGS)}
        assert tags == branch.tags, where
        for name in tags:
            self._check_rows(self._read(table, tag=name), [branch.tagged[name]], f"{where}, tag {name}")

    def _check_rows(self, rows: Rows, known: list[Rows], where: str) -> None:
        # Rows of level 0 may be hidden until they are compacted: what is read may be older, and is never made up.
        assert self._kind.hides or rows in known, f"{where}: other rows than in the model"

    def _read(self, table: Table, **at: Any) -> Rows:
        rows = Rows(self._kind, table.to_arrow(columns=_NAMES, **at).to_pylist())
        assert len({(row["p"], row["k"]) for row in rows.rows}) == len(rows.rows), "a key is there twice"
        return rows

    def clean(self) -> None:
        """Removes orphans, and then no file is left that nothing needs; reads every snapshot."""
        time.sleep(0.005)
        table = self.location.table()
        # What was killed a moment ago is newer than the newest commit.
        result = table.remove_orphan_files(int(time.time() * 1000), confirm_latest_snapshot=table.latest_snapshot_id())
        assert result.stopped == ()
        assert_nothing_left(self.location.handle)
        # It blocks commits by snapshots that change nothing.
        self.model.main.saw(table.snapshots()["snapshot_id"].to_pylist())
        for name, branch in self.model.branches.items():
            branch.saw(self.location.table(name).snapshots()["snapshot_id"].to_pylist())
        table = self.location.table()
        if self._kind.hides and self.model.main.at:
            # Only now all rows are to be seen.
            table.compact(full=True)
            assert self._read(table) == self.model.main.rows
            self.model.main.saw(table.snapshots()["snapshot_id"].to_pylist())
        for number, rows in self.model.main.at.items():
            self._check_rows(self._read(table, snapshot=number), [rows], f"snapshot {number}")
