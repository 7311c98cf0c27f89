"""Values that Arrow's cast makes into others without an error, at any depth of a column."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc


def changed_by_cast(given: pa.Array, made: pa.Array) -> str | None:
    """What is wrong with a column that was cast: finite numbers became infinite, or intervals became text; else None.

    `made` is `given` in the table's type, row by row.
    """
    if isinstance(given, pa.ExtensionArray):
        given = given.storage
    if pa.types.is_dictionary(given.type):
        given = given.dictionary_decode()
    for inner, place in _parts(given, made):
        if (found := changed_by_cast(inner, place)) is not None:
            return found
    if pa.types.is_duration(given.type) and pa.types.is_string(made.type) and made.null_count < len(made):
        return f"it has intervals ({given.type}), of which only a number would be left; make them text, or numbers"
    if pa.types.is_floating(made.type) and (value := _made_infinite(given, made)) is not None:
        return f"{value} is too large and would become infinite; use a wider column, or leave it out"
    return None


def _parts(given: pa.Array, made: pa.Array) -> list[tuple[pa.Array, pa.Array]]:
    """Fields by their names, elements, keys and values of two nested columns, side by side."""
    if pa.types.is_struct(given.type) and pa.types.is_struct(made.type):
        inner = dict(zip((field.name for field in given.type), given.flatten(), strict=True))
        places = zip(made.type, made.flatten(), strict=True)
        return [(inner[field.name], place) for field, place in places if field.name in inner]
    if pa.types.is_map(given.type) and pa.types.is_map(made.type):
        (keys, items), (made_keys, made_items) = _entries(given), _entries(made)
        return [(keys, made_keys), (items, made_items)]
    if pa.types.is_nested(given.type) and hasattr(given.type, "value_field") and hasattr(made.type, "value_field"):
        return [(given.flatten(), made.flatten())]
    return []


def _entries(column: pa.Array) -> tuple[pa.Array, pa.Array]:
    entries = slice(column.offsets[0].as_py(), column.offsets[-1].as_py())
    return column.keys[entries], column.items[entries]


def _made_infinite(given: pa.Array, made: pa.Array) -> str | None:
    """The first value that is finite in `given` and infinite in `made`, as text."""
    if not pc.any(infinite := pc.is_inf(made)).as_py():
        return None
    before = given.filter(infinite)
    if pa.types.is_floating(before.type):
        finite = pc.is_finite(before)
    elif pa.types.is_decimal(before.type):
        return str(before[0].as_py())
    else:
        finite = pc.invert(pc.match_substring_regex(before.cast(pa.string()), "inf", ignore_case=True))
    found = before.filter(finite)
    return str(found[0].as_py()) if len(found) else None
