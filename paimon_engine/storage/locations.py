"""Which location a path leads to: whether it is in a directory, or only looks so.

Tables are written by others. Paths inside a table are made of names that were checked, so that only two ways lead out:
a symbolic link on a local disk, and the full path that a manifest gives for a file outside the table.
"""

from __future__ import annotations

import os
from collections.abc import Collection
from typing import Final

_LOCAL_SCHEME: Final = "file:"


def normal_path(path: str) -> str | None:
    """The path in the form for comparisons: local ones absolute and without their scheme; None if it is ambiguous.

    That is so for relative paths, and for paths with `.`, `..`, empty parts or characters that cannot be printed.
    """
    if not path.isprintable() or "\\" in path:
        return None
    rest, scheme = path, ""
    if path.startswith(_LOCAL_SCHEME):
        # `file:/x` and `file:///x`, as Java and other programs write it.
        rest = path.removeprefix(_LOCAL_SCHEME)
        rest = rest.removeprefix("//") if rest.startswith("///") else rest
    elif "://" in path:
        scheme, _, rest = path.partition("://")
        scheme, rest = f"{scheme}:/", f"/{rest}"
    parts = rest.rstrip("/").split("/")
    if parts[0] or len(parts) < 2 or any(part in ("", ".", "..") for part in parts[1:]):
        return None
    return scheme + "/".join(parts)


def is_below(path: str, directories: Collection[str]) -> bool:
    """Whether the path is below one of the directories, by its text."""
    found = normal_path(path)
    locations = (normal_path(directory) for directory in directories)
    return found is not None and any(
        location is not None and found.startswith(f"{location}/") for location in locations
    )


def leads_out(path: str, root: str) -> bool:
    """Whether a path below the directory `root` leads to a location outside of it, by a symbolic link on a local disk.

    The last part of the path is not followed: a link itself belongs to the directory that contains it.
    """
    location, home = _local(path), _local(root)
    if location is None or home is None:
        return False
    directory, real_home = os.path.realpath(os.path.dirname(location)), os.path.realpath(home)
    return directory != real_home and not directory.startswith(f"{real_home}{os.sep}")


def is_local(path: str) -> bool:
    """Whether the path is one of the local disk."""
    return path.startswith(_LOCAL_SCHEME) or "://" not in path


def in_one_store(path: str, other: str) -> bool:
    """Whether two paths are in the same store, by their text: the same scheme and host or bucket, or both local."""
    return _store(path) == _store(other)


def _store(path: str) -> tuple[str, str]:
    if is_local(path):
        return "file", ""
    scheme, _, rest = path.partition("://")
    return scheme.lower(), rest.partition("/")[0]


def _local(path: str) -> str | None:
    """The path on the local disk; None if it is in another store."""
    if path.startswith(_LOCAL_SCHEME):
        path = path.removeprefix(_LOCAL_SCHEME)
        return path.removeprefix("//") if path.startswith("//") else path
    return path if is_local(path) else None
