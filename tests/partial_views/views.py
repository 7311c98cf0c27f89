"""Parts of a table that a process may see: while it is copied or restored, or through a store that forgets."""

from __future__ import annotations

import random
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

_COPIED_FIRST = re.compile(r"bucket-|manifest/|index/|statistics/|[^/]+=[^/]+/")


@dataclass(frozen=True)
class View:
    """What is visible, and how it came about."""

    name: str
    paths: frozenset[str]


def views(paths: Sequence[str], *, seeds: range, every: int = 1) -> Iterator[View]:
    """Prefixes and suffixes in two orders, every file and directory left out, and random parts.

    Prefixes and suffixes are cut at every `every`-th file.
    """
    by_path = sorted(paths)
    # In the order of `rsync -a`: data and manifests before snapshots, and files of a directory before its directories.
    by_copy = sorted(paths, key=lambda path: (not _COPIED_FIRST.match(path), path))
    for order, ordered in (("path", by_path), ("copy", by_copy)):
        for cut in range(0, len(ordered) + 1, every):
            yield View(f"first {cut} by {order}", frozenset(ordered[:cut]))
            yield View(f"last {cut} by {order}", frozenset(ordered[len(ordered) - cut :]))
    for path in by_path[::every]:
        yield View(f"without {path}", frozenset(by_path) - {path})
    for directory in sorted({path[: match.start()] for path in by_path for match in re.finditer("/", path)}):
        left = frozenset(path for path in by_path if not path.startswith(f"{directory}/"))
        yield View(f"without {directory}/", left)
    for seed in seeds:
        chance = random.Random(seed)
        share = chance.choice((0.3, 0.6, 0.9, 0.97))
        yield View(f"random {seed}", frozenset(path for path in by_path if chance.random() < share))
    for seed in seeds:
        # Only versions are not visible: what is left looks whole.
        chance = random.Random(seed)
        hidden = [path for path in by_path if _is_version(path) and chance.random() < 0.4]
        yield View(f"random versions {seed}", frozenset(by_path) - frozenset(hidden))


def _is_version(path: str) -> bool:
    return re.search(r"(snapshot|tag|changelog|schema)/[^/]+$", path) is not None
