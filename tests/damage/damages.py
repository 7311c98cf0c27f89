"""The ways in which a file is damaged, each a function on the table's files."""

from __future__ import annotations

import os
import random
from dataclasses import dataclass
from typing import Final

from tests.damage.subjects import Files, kind_of

EVERYTHING: Final = "PAIMON_DAMAGES" in os.environ
"""With this variable every damage is tried, else some of each subject."""
DAMAGES_PER_SUBJECT: Final = 20
FLIPS_PER_FILE: Final = 4
FILES_PER_KIND: Final = 2


@dataclass(frozen=True, slots=True)
class Damage:
    """One file of a subject, and what happens to it; `seed` chooses the bit, or the other file."""

    subject: str
    path: str
    how: str
    seed: int = 0


def damages_of(name: str, files: Files) -> list[Damage]:
    """What is tried on a subject: every way on a few files of each kind, or a fixed choice of these."""
    found = _all_damages(name, files)
    return (
        found
        if EVERYTHING or len(found) < DAMAGES_PER_SUBJECT
        else random.Random(name).sample(found, DAMAGES_PER_SUBJECT)
    )


def _all_damages(name: str, files: Files) -> list[Damage]:
    by_kind: dict[str, list[str]] = {}
    for path in sorted(files):
        by_kind.setdefault(kind_of(path, files), []).append(path)
    chosen = []
    for paths in by_kind.values():
        # The newest one, and some other; hints are few and both matter.
        chosen += [paths[-1], *random.Random(name).sample(paths[:-1], min(FILES_PER_KIND - 1, len(paths) - 1))]
    found = []
    for path in chosen:
        for how in WAYS:
            repeats = FLIPS_PER_FILE if how == "flipped" else 1
            found += [Damage(name, path, how, seed) for seed in range(repeats)]
    return [damage for damage in found if damaged(damage, files) != files]


def damaged(damage: Damage, files: Files) -> Files:
    """The files after the damage; unchanged where it does not apply."""
    data = files[damage.path]
    chance = random.Random(f"{damage.path} {damage.how} {damage.seed}")
    changed: bytes | None = data
    match damage.how:
        case "halved":
            changed = data[: len(data) // 2]
        case "cut":
            changed = data[:-1]
        case "emptied":
            changed = b""
        case "zeroed":
            changed = bytes(len(data))
        case "grown":
            changed = data + b"\x00more"
        case "flipped":
            changed = _flipped(data, chance)
        case "replaced by its like":
            changed = _other(files, damage.path, chance, alike=True)
        case "replaced by another kind":
            changed = _other(files, damage.path, chance, alike=False)
        case "missing":
            changed = None
        case _:
            raise AssertionError(damage.how)
    rest = {path: content for path, content in files.items() if path != damage.path}
    return rest if changed is None else {**rest, damage.path: changed}


WAYS: Final = (
    "halved",
    "cut",
    "emptied",
    "zeroed",
    "grown",
    "flipped",
    "replaced by its like",
    "replaced by another kind",
    "missing",
)


def _flipped(data: bytes, chance: random.Random) -> bytes:
    if not data:
        return data
    index = chance.randrange(8 * len(data))
    changed = bytearray(data)
    changed[index >> 3] ^= 1 << (index & 7)
    return bytes(changed)


def _other(files: Files, path: str, chance: random.Random, *, alike: bool) -> bytes:
    kind = kind_of(path, files)
    others = [one for one in sorted(files) if (kind_of(one, files) == kind) == alike and files[one] != files[path]]
    return files[chance.choice(others)] if others else files[path]
