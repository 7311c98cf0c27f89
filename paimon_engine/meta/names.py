"""Names that people give and that become file names: of tags, branches and consumers."""

from __future__ import annotations

from typing import Final

from paimon_engine.errors import InvalidArgumentError, shown
from paimon_engine.meta.paths import MAIN_BRANCH

_NAME_BYTES_MAX: Final = 200
"""File names end at 255 bytes on most stores; a name needs room for its prefix and temporary names."""


def check_tag_name(name: str) -> None:
    """Raises InvalidArgumentError if the name is blank, a number, or not a plain file name."""
    check_file_name("tag", name)
    if _is_number(name):
        raise InvalidArgumentError(
            f"tag name {name!r} is a number and would hide the snapshot of that id; add a letter or dash"
        )


def check_branch_name(name: str) -> None:
    """Raises InvalidArgumentError if a branch other than main may not have this name."""
    check_file_name("branch", name)
    if name == MAIN_BRANCH:
        raise InvalidArgumentError(f"{MAIN_BRANCH!r} is the table itself; choose another name for the branch")
    if _is_number(name):
        raise InvalidArgumentError(f"branch name {name!r} is a number; add a letter or dash")


def check_file_name(kind: str, name: str) -> None:
    """Raises InvalidArgumentError if nothing new of that `kind` may be called so: no plain file name, or too long."""
    check_inside_directory(kind, name)
    if any(ord(char) < 32 or ord(char) == 127 for char in name):
        raise InvalidArgumentError(f"{kind} name {name[:40]!r} has control characters")
    if not is_text(name):
        raise InvalidArgumentError(f"{kind} name {name[:40]!r} contains a lone surrogate")
    if len(name.encode()) > _NAME_BYTES_MAX:
        raise InvalidArgumentError(f"{kind} name {name[:40]!r}… is longer than {_NAME_BYTES_MAX} bytes")


def check_inside_directory(kind: str, name: str) -> None:
    """Raises InvalidArgumentError if the name is blank or could lead out of its directory.

    This is required of existing names too.
    """
    if not isinstance(name, str) or not name.strip():
        raise InvalidArgumentError(f"a {kind} needs a name; it is blank")
    if any(char in "/\\\0" for char in name) or name in (".", ".."):
        raise InvalidArgumentError(f"{kind} name {name[:40]!r} must be a plain file name, without separators")


def checked_user(user: str | None) -> str | None:
    """The name of a commit's user, as the caller gave it. Raises: InvalidArgumentError if it is not a text."""
    if user is not None and not isinstance(user, str):
        raise InvalidArgumentError(f"commit_user={shown(user)} is not allowed; give a text, or None for a fresh one")
    if user is not None and not is_text(user):
        raise InvalidArgumentError(f"commit_user={shown(user)} contains a lone surrogate")
    return user


def is_text(text: str) -> bool:
    """Whether the text has no lone surrogate, so that it can be stored in UTF-8."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _is_number(name: str) -> bool:
    return name.strip().isdigit()
