"""Damaged tables: nothing wrong is read without an error, nothing hangs or dies, nothing that is needed is deleted.

Each subject has its files cut, emptied, zeroed, flipped, exchanged and taken away, one at a time, and everything is
tried on it that people do with a table. It then either returns what the undamaged table returns, or an error of ours
that names the damaged file and what to do. With PAIMON_DAMAGES=1 every damage is tried, which takes some minutes.

`UNREPORTED` has what no reader of the format can tell.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final, NamedTuple

import pytest

from paimon_engine.errors import REMEDY
from tests.damage.damages import Damage, damages_of
from tests.damage.subjects import SUBJECTS, Files, is_golden, kind_of, subject
from tests.damage.trial import tried
from tests.damage.uses import Outcome
from tests.support.golden import golden_folder

TYPED: Final = re.compile("CorruptTableError: |NotFoundError: |PaimonError: bucket ")
"""What refusals begin with; a compaction reports errors by bucket, and continues with the others."""


class Unreported(NamedTuple):
    """Damage that leaves bytes as the format has them: of these kinds, done in this way, seen in these uses."""

    kinds: str
    how: str
    uses: str
    why: str


UNREPORTED: Final = (
    Unreported("snapshot", "missing", ".*", "a table without its newest snapshot is the table before it"),
    Unreported("tag|consumer", "missing", ".*", "anybody may delete them"),
    Unreported("tag", "replaced by its like", ".*", "a tag's file does not say the tag's name"),
    Unreported("consumer", "replaced by its like", ".*", "a consumer's file does not say the consumer's name"),
    Unreported("statistics", "replaced by its like", r"\$statistics", "a statistics file does not say its name"),
    Unreported(
        "index manifest", "replaced by its like", ".*", "snapshots say nothing of an index manifest but its name"
    ),
    Unreported(
        "manifest list",
        "replaced by its like",
        r"\$manifests|changes|check",
        "snapshots of 0.9 say no more of a list than how many rows its changes add",
    ),
    Unreported("snapshot|tag|consumer|schema|statistics", "flipped", ".*", "JSON files have no checksum"),
    Unreported("manifest|manifest list|index manifest", "flipped", ".*", "Avro and ORC files have no checksum"),
    Unreported("orc|avro", "flipped", ".*", "Avro and ORC files have no checksum"),
)
"""What may read as something else. Where rows do, there are as many as before (`_has_as_many_rows`)."""

_INVISIBLE: Final = ("hint", "consumer", "statistics", "file index", "hash index")
"""Kinds into which `check_table` does not look."""


@pytest.mark.parametrize("name", SUBJECTS)
def test_damage_is_reported(name: str) -> None:
    if is_golden(name) and golden_folder() is None:
        pytest.skip("the golden tables are missing; make them with python -m tests.golden.make")
    files = subject(name)
    damages = [Damage(name, min(files), "not at all"), *damages_of(name, files)]

    assert_reported(damages, files)


FINDS: Final = (
    ("dv_aggregation", "manifest/index-manifest-.*", "replaced by another kind"),
    ("append_dv", "index/.*", "missing"),
    ("comp_parquet_snappy", "manifest/manifest-(?!list).*", "replaced by its like"),
    ("evolve_columns_pk", "schema/schema-[1-9]", "missing"),
)
"""Subject, files and damage that were reported wrongly or not at all, in subjects that are not tried as a whole."""


@pytest.mark.parametrize(("name", "pattern", "how"), FINDS)
def test_damage_that_was_found_by_trying_other_tables_is_reported(name: str, pattern: str, how: str) -> None:
    if golden_folder() is None:
        pytest.skip("the golden tables are missing; make them with python -m tests.golden.make")
    files = subject(name)
    damages = [Damage(name, path, how) for path in sorted(files) if re.fullmatch(pattern, path)]

    assert_reported([Damage(name, min(files), "not at all"), *damages], files)


def assert_reported(damages: Sequence[Damage], files: Files) -> None:
    """Tries the damages, of which the first is none."""
    (_, sound), *outcomes = tried(damages)

    expected = {outcome.use: outcome for outcome in sound}
    wrong = [
        f"{damage.path} {damage.how} ({damage.seed}): {outcome.use}: {reason}\n    {outcome.message[-400:]}"
        for damage, found in outcomes
        for outcome in found
        if (reason := _wrong(damage, kind_of(damage.path, files), outcome, expected)) is not None
    ]
    assert not wrong, "\n".join(wrong[:20])


def _wrong(damage: Damage, kind: str, outcome: Outcome, expected: dict[str, Outcome]) -> str | None:
    """What is wrong with an outcome; None if nothing is."""
    if outcome.what in ("died", "escaped"):
        return outcome.what
    if outcome == expected[outcome.use]:
        return "not seen" if outcome.use == "check" and not _may_be_unseen(damage, kind) else None
    if outcome.use == "check":
        return None
    if outcome.what == "done":
        if not _is_unreported(damage, kind, outcome.use):
            return "wrong"
        return None if _has_as_many_rows(damage, kind, outcome, expected[outcome.use]) else "wrong number of rows"
    return _wrong_refusal(damage, kind, outcome)


def _may_be_unseen(damage: Damage, kind: str) -> bool:
    looks_inside = kind not in (*_INVISIBLE, "orc", "avro")
    if kind == "parquet" and damage.how == "replaced by its like":
        # By a file of as many bytes and rows; a reader of it gets other keys or sequence numbers.
        return True
    return not looks_inside or damage.how == "flipped" or _is_unreported(damage, kind, "check")


def _is_unreported(damage: Damage, kind: str, use: str) -> bool:
    # Deleting a tag whose file is broken removes that file and no other.
    if kind == "tag" and use.startswith("delete tag"):
        return True
    return any(
        re.fullmatch(one.kinds, kind) and one.how == damage.how and re.fullmatch(one.uses, use) for one in UNREPORTED
    )


def _has_as_many_rows(damage: Damage, kind: str, outcome: Outcome, expected: Outcome) -> bool:
    counted = kind in ("orc", "avro") and damage.how == "flipped" and outcome.use.startswith(("rows", "compact"))
    return not counted or outcome.message.split()[0] == expected.message.split()[0]


def _wrong_refusal(damage: Damage, kind: str, outcome: Outcome) -> str | None:
    # A flipped bit in an option or a name is a table with another option or name, and refused as that.
    is_other_table = kind == "schema" and damage.how == "flipped"
    if not TYPED.match(outcome.message):
        return None if is_other_table else "another error"
    gone = damage.how == "missing" and kind in ("snapshot", "tag", "schema")
    if kind == "hint" or gone:
        return None
    if damage.how != "flipped" and damage.path.rpartition("/")[2] not in outcome.message:
        return "does not name the file"
    return None if REMEDY in outcome.message else "does not say what to do"
