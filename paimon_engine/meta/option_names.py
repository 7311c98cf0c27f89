"""Table options that name columns, after a column got another name."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from paimon_engine.options.older_names import newest_name

_LISTS: Final = frozenset(
    {
        "bucket-key",
        "sequence.field",
        "rowkind.field",
        "record-level.time-field",
        "clustering.columns",
        "changelog-producer.row-deduplicate-ignore-fields",
        "partial-update.remove-record-on-sequence-group",
    }
)
"""Options whose value is a column or several."""

_FIELDS: Final = "fields."
_INDEX: Final = "file-index."


def rename_in_options(options: Mapping[str, str], old: str, new: str) -> dict[str, str]:
    """The options with the column's new name in keys and values that name it.

    Values of `fields.<column>.nested-key` stay: they name fields of the rows in the column.
    """
    return {_key(key, old, new): _value(key, text, old, new) for key, text in options.items()}


def _key(key: str, old: str, new: str) -> str:
    if key.startswith(_FIELDS):
        names, dot, rest = key[len(_FIELDS) :].partition(".")
        return f"{_FIELDS}{_renamed(names, old, new)}{dot}{rest}" if dot else key
    parts = key.split(".")
    # file-index.<kind>.<column>.<option>
    if key.startswith(_INDEX) and len(parts) > 3:
        return ".".join([*parts[:2], _renamed(parts[2], old, new), *parts[3:]])
    return key


def _value(key: str, text: str, old: str, new: str) -> str:
    is_group = key.startswith(_FIELDS) and key.endswith(".sequence-group")
    is_index = key.startswith(_INDEX) and key.endswith(".columns")
    return _renamed(text, old, new) if newest_name(key) in _LISTS or is_group or is_index else text


def _renamed(names: str, old: str, new: str) -> str:
    return ",".join(_one_renamed(name, old, new) for name in names.split(","))


def _one_renamed(name: str, old: str, new: str) -> str:
    """A column, or `column[key]`, as indexes of values in maps are named."""
    column, bracket, key = name.strip().partition("[")
    if name.strip() == old:
        return new
    return f"{new}{bracket}{key}" if bracket and column == old else name
