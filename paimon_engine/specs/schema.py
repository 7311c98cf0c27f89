"""JSON schemas of specs: the allowed content of jobs, for editors and for programs that write jobs.

Values have their typed form or, as everywhere, the text of one; which texts those are the description of a field says.
"""

from __future__ import annotations

import types
import typing
from collections.abc import Mapping
from typing import Any, Final

from paimon_engine.specs.fields import SpecField, described, fields_of, kind_of
from paimon_engine.specs.kinds import Bounds

_TYPES: Final[Mapping[Any, str]] = {bool: "boolean", int: "integer", float: "number", str: "string"}


def schema_of(spec: Any, **constants: str) -> dict[str, Any]:
    """The schema of an object with the fields of a spec, and with these constants in addition."""
    items = fields_of(spec)
    return {
        "type": "object",
        "description": (spec.__doc__ or "").partition("\n")[0],
        "properties": {
            **{name: {"const": value} for name, value in constants.items()},
            **{item.name: _field(item) for item in items},
        },
        "required": [*constants, *(item.name for item in items if item.is_required)],
        "additionalProperties": False,
    }


def _field(item: SpecField) -> dict[str, Any]:
    schema = _hint(item.hint)
    if item.is_empty_if_none:
        schema = _any_of([schema, {"type": "null"}])
    schema["description"] = "; ".join(text for text in (item.help, f"give {described(item.hint)}") if text)
    if not item.is_required:
        schema["default"] = item.default
    return schema


def _hint(hint: Any) -> dict[str, Any]:
    """The JSON schema of a type hint of a spec's field; texts are allowed wherever the decoder reads them."""
    match typing.get_origin(hint):
        case typing.Annotated:
            inner, *marks = typing.get_args(hint)
            bounds = next((mark for mark in marks if isinstance(mark, Bounds)), Bounds())
            return {**_with_texts(inner, _hint(inner), is_of_a_kind=kind_of(hint) is not None), **_bounded(bounds)}
        case typing.Union | types.UnionType:
            return _any_of([_hint(choice) for choice in typing.get_args(hint)])
        case typing.Literal:
            return {"enum": list(typing.get_args(hint))}
        case None:
            return _plain(hint)
        case origin if isinstance(origin, type) and issubclass(origin, Mapping):
            return {"type": "object", "additionalProperties": _hint(typing.get_args(hint)[1])}
        case _:
            return {"type": ["array", "string"], "items": _hint(typing.get_args(hint)[0])}


def _plain(hint: Any) -> dict[str, Any]:
    if hint is type(None):
        return {"type": "null"}
    if hint in _TYPES:
        return _with_texts(hint, {"type": _TYPES[hint]}, is_of_a_kind=True)
    # What is not a plain value is an object in a job.
    return {} if hint is Any else {"type": "object"}


def _with_texts(inner: Any, schema: dict[str, Any], *, is_of_a_kind: bool) -> dict[str, Any]:
    """The schema, where texts are allowed for the values too."""
    kept = schema.get("type")
    if not is_of_a_kind or inner is str or not isinstance(kept, str) or kept == "string":
        return schema
    return {**schema, "type": [kept, "string"]}


def _bounded(bounds: Bounds) -> dict[str, Any]:
    found = {"minimum": bounds.least, "maximum": bounds.most, "exclusiveMinimum": bounds.above}
    return {name: value for name, value in found.items() if value is not None}


def _any_of(choices: list[dict[str, Any]]) -> dict[str, Any]:
    """One schema for several, as a list of types where that says the same."""
    distinct = [choice for number, choice in enumerate(choices) if choice not in choices[:number]]
    if {} in distinct:
        return {}
    with_more = [choice for choice in distinct if choice.keys() != {"type"}]
    if len(with_more) <= 1 and all("type" in choice for choice in distinct):
        kinds = [kind for choice in distinct for kind in _as_list(choice["type"])]
        return {**(with_more[0] if with_more else {}), "type": list(dict.fromkeys(kinds))}
    return {"anyOf": distinct}


def _as_list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]
