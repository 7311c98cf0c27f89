"""One trial: a scenario's action, in which one call of the store fails in one way; and what must be true afterwards.

1. The action succeeds, or raises a PaimonError.
2. The table is valid, nothing that a snapshot, tag or branch needs is deleted, and its rows are those before or after.
3. After a failure that is certain, actions that promise it leave no file behind.
4. The action repeated under the same name comes to the state of a run without faults: nothing is lost or done twice.
5. After a removal of orphans no file is left that nothing needs.
6. A table is called damaged only where bytes are missing from a file, or a file from a listing: who believes it rolls back.
"""

from __future__ import annotations

from collections.abc import Iterator

from tests.support.faulty_storage import DOWN, WAYS
from tests.support.world.check import assert_sound, clean, look
from tests.support.world.rehearsal import Rehearsal

_CLEAN_UP = ("delete", "delete_dir", "delete_tree")
"""If these fail, files may be left that should have been deleted."""
_LIES = ("short", "late")
"""Ways in which a store shows something else than what is there, without an error."""


def trials(stage: Rehearsal) -> Iterator[tuple[int, str]]:
    """Every call, with every way in which it can fail."""
    for number, (verb, _path) in enumerate(stage.calls):
        for way in (*WAYS[verb], DOWN):
            yield number, way


def run_trial(stage: Rehearsal, fail_at: int, way: str) -> str:
    """`succeeded`, or the kind of error that the action raised. Raises AssertionError for what is not allowed."""
    stage.reset()
    outcome, result = stage.attempt(fail_at=fail_at, way=way)
    if way == "late" and outcome == "succeeded" and look(stage.world) != stage.after:
        # A listing that comes late does not show the last change; what it hides is left to the next run.
        outcome = "saw an older table"
    if way not in _LIES:
        assert outcome != "CorruptTableError", result
        assert getattr(result, "status", None) != "damaged", result
    left = _check(stage, outcome)
    if stage.scenario.takes_back and _is_certain(stage, outcome, fail_at, way):
        assert left <= stage.debris, f"left after {result!r}: {sorted(left - stage.debris)}"
    if outcome != "succeeded":
        stage.act()
        left = _check(stage, "succeeded" if outcome != "partial" else "in parts")
    if left:
        clean(stage.world)
    return outcome


def _is_certain(stage: Rehearsal, outcome: str, fail_at: int, way: str) -> bool:
    if outcome == "OutcomeUnknownError" or way == DOWN or fail_at >= len(stage.faulty.calls):
        return False
    return stage.calls[fail_at][0] not in _CLEAN_UP


def _check(stage: Rehearsal, outcome: str) -> set[str]:
    """Files that nothing needs. Raises AssertionError unless the table is as it must be."""
    goes_over = outcome != "succeeded" and stage.scenario.name == "roll back to a tag that has expired"
    left = assert_sound(stage.world.handle, may_lack_snapshots=goes_over)
    if outcome == "succeeded":
        now = look(stage.world)
        assert now == stage.after, now.difference(stage.after)
    elif outcome == "in parts":
        now = look(stage.world)
        assert (now.rows, now.tags) == (stage.after.rows, stage.after.tags)
        assert set(now.commits.values()) == {1}
    else:
        stage.assert_known_rows()
    return left
