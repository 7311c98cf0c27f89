"""Checks of options that are about to be stored in a table, when it is created or altered.

What is stored already is not looked at: a table that another engine made with odd options can be altered.
"""

from __future__ import annotations

from collections.abc import Mapping

from paimon_engine.options.kinds import check_text
from paimon_engine.options.names import check_names
from paimon_engine.options.older_names import check_one_name


def check_changed(before: Mapping[str, str], after: Mapping[str, str]) -> None:
    """Warns of new names that are nearly those of options.

    Raises: InvalidArgumentError for a new or changed option that no engine, or only this one, would obey.
    """
    check_names(after.keys() - before.keys())
    changed = {name: text for name, text in after.items() if before.get(name) != text}
    check_one_name(after, changed)
    for name, text in changed.items():
        check_text(name, text)
