"""A clean-up of orphan files keeps out commits whose files it is about to delete.

The age of a file alone does not protect it: a writer may be held up for longer than the clean-up's age, and a store's
clock, or a copy that keeps times, may make a new file look old. The only atomic thing that there is, is *create
snapshot n+1 if absent*. So a clean-up that has found something to delete

1. writes a *plan* `deletion/orphans/<id>.json` (`table.reach.clean_up_plan`) with the paths that it is going to delete;
2. commits a *fence* on every branch that has snapshots: a snapshot that changes nothing, of kind COMPACT, which readers
   of changes pass over, under a commit user that starts with `FENCE_USER`. Whoever had prepared the next snapshot loses
   the race;
3. looks once more at everything that roots name, up to the fence and beyond, and leaves what is named now;
4. deletes, or moves into a quarantine; 5. removes the plan.

A commit that finds a fence made after its own work began (`table.commit.own_files`) asks whether its files stand in a
plan, and then whether they are there, in that order: the plan goes last. So for a file that a clean-up has listed

- if it was committed before the fence, the third look sees it, and it stays;
- if it is to be committed after the fence, that commit finds the plan, or that the file is gone, and is refused;
- if it was written after the fence, it is in no plan, since files are listed before; so a clean-up that goes on after
  hours does not meet it.

A clean-up that is killed leaves its plan; commits whose files stand in it are refused until the next clean-up has
deleted these files and removed the plan. A plan may be removed by others only when each of its files is gone, or is
named: then whoever wrote it, if it is alive after all, deletes nothing that is needed.

A table to which this engine cannot commit (`manifest.format` is not Avro) gets no fence: it has no commit in flight.

A branch without snapshots gets no fence, since a first snapshot would change what it means; whoever makes the first
snapshot of a branch looks after its files once more when it is made. Other engines do not look at plans: of their
commits only the age of the files tells.
"""

from __future__ import annotations

from collections.abc import Collection

from paimon_engine.errors import PaimonError
from paimon_engine.meta.paths import MAIN_BRANCH
from paimon_engine.meta.snapshot import CommitKind
from paimon_engine.supported import can_write_metadata
from paimon_engine.table.commit.commit import CommitRequest, Conflict, commit
from paimon_engine.table.reach.clean_up_plan import FENCE_USER, CleanUpPlan, forget_plan, plans
from paimon_engine.table.state.handle import TableHandle
from paimon_engine.table.state.side_by_side import in_threads
from paimon_engine.table.state.snapshots import branches, snapshot_ids


def raise_fences(table: TableHandle, plan: CleanUpPlan) -> list[str]:
    """Commits a fence on every branch that has snapshots; texts that say where that was not possible, and why."""
    problems: list[str] = []
    if not can_write_metadata(table.options):
        return problems
    for branch in (MAIN_BRANCH, *branches(table)):
        try:
            line = table if branch == table.paths.branch else table.on_branch(branch)
            if not snapshot_ids(line):
                continue
            outcome = commit(line, CommitRequest((), CommitKind.COMPACT, FENCE_USER + plan.id))
        except PaimonError as error:
            problems.append(f"commits to branch {branch!r} could not be kept out: {error}")
            continue
        assert not isinstance(outcome, Conflict), "a fence changes no files"
    return problems


def forget_finished_plans(table: TableHandle, named: Collection[str]) -> None:
    """Removes plans of clean-ups that have died, of whose files each is gone or among the names that are `named`."""
    for plan in plans(table):
        waiting = [path for path in plan.paths if path.rpartition("/")[2] not in named]
        if not any(in_threads(table, _exists, waiting)):
            forget_plan(table, plan.id)


def _exists(table: TableHandle, path: str) -> bool:
    return table.env.storage.exists(path)
