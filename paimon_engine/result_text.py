"""Results of actions as short tables, for a prompt and for a notebook: a line for each number, lists only counted.

CompactResult: committed
  snapshot_id  3
  files        5 → 1
  bytes        9.6 KiB → 2.1 KiB
  buckets      2 items
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from paimon_engine.units import size_text

_TEXT_MAX: Final = 80
_REASONS_MAX: Final = 1000
"""Characters of a short list of texts: they say why something was left, which is what people need to read."""
_TEXTS_MAX: Final = 3
"""Lists of so many names are shown completely."""


def as_text(name: str, values: Mapping[str, Any]) -> str:
    """Lines of text, the first with the status."""
    rows = list(_rows(values))
    width = max((len(label) for label, _ in rows), default=0)
    return "\n".join([f"{name}: {values.get('status')}", *(f"  {label:<{width}}  {text}" for label, text in rows)])


def as_line(values: Mapping[str, Any]) -> str:
    """The status and all numbers but zeros, on one line; what was listed is only counted."""
    rows = [f"{label} {text}" for label, text in _rows(values) if text not in ("0", "0.0", "0 B")]
    return ", ".join([str(values.get("status")), *rows])


def as_html(name: str, values: Mapping[str, Any]) -> str:
    """A table of HTML, in which no text is markup."""
    import html

    caption = html.escape(f"{name}: {values.get('status')}")
    cells = (f"<tr><th>{html.escape(label)}</th><td>{html.escape(text)}</td></tr>" for label, text in _rows(values))
    return f"<table><caption>{caption}</caption>{''.join(cells)}</table>"


def _rows(values: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    for name, value in values.items():
        stem = name.removesuffix("_before")
        if name == "status" or value is None or (name.endswith("_after") and f"{name[:-6]}_before" in values):
            continue
        if stem != name and values.get(f"{stem}_after") is not None:
            yield stem, f"{_text(stem, value)} → {_text(stem, values[f'{stem}_after'])}"
        elif text := _text(name, value):
            yield name, text


def _text(name: str, value: Any) -> str:
    """The value on one line; an empty text for an empty value."""
    match value:
        case bool():
            text = str(value)
        case int() if "bytes" in name:
            text = size_text(value)
        case int() if name.endswith(("_id", "_ms", "snapshot")):
            text = str(value)
        case int():
            text = f"{value:,}"
        case float():
            text = f"{value:,.1f}"
        case dict() if name == "levels":
            text = " ".join(f"L{level}×{count}" for level, count in value.items())
        case list() | tuple() | dict() if not value:
            text = ""
        case list() | tuple() if len(value) <= _TEXTS_MAX and all(isinstance(item, str | int) for item in value):
            text = ", ".join(map(str, value))
        case list() | tuple() | dict():
            text = f"{len(value):,} item{'' if len(value) == 1 else 's'}"
        case _:
            text = str(value)
    line = "".join(char if char.isprintable() else repr(char)[1:-1] for char in text)
    most = _REASONS_MAX if isinstance(value, list | tuple) else _TEXT_MAX
    return line if len(line) <= most else f"{line[: most - 1]}…"
