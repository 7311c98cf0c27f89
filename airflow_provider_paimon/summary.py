"""What an operator returned, in one line for people."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

_UNITS: Final = ("", "KiB", "MiB", "GiB", "TiB")
_NOT_SAID: Final = frozenset({"status", "snapshot_id", "seconds", "tag", "warnings"})
_REASONS: Final = ("stopped", "remaining_because", "notes")
"""Lists of texts, which say why something was not done."""
_REASONS_MAX: Final = 2
_PAIR: Final = ("_before", "_after")
_STARTUP_MIN_S: Final = 0.05
"""Without Spark there is next to nothing to start."""


def is_result(value: Any) -> bool:
    """Whether a task returned this as an operator of this provider does."""
    return isinstance(value, Mapping) and ({"action", "table", "status", "details"} <= value.keys() or _is_flat(value))


def _is_flat(value: Mapping[str, Any]) -> bool:
    """Whether this is what a transfer, `@task.paimon_write` or `PaimonCommitHook.commit` gives, without `details`."""
    return {"table", "status", "snapshot_id"} <= value.keys() and isinstance(value["table"], str)


def summary_line(result: Mapping[str, Any]) -> str:
    """`compact shop.orders: committed, snapshot 12; files 14 → 2, bytes 1.2 MiB → 0.9 MiB`, and what was not done."""
    parts = [str(result["status"])]
    if result.get("snapshot_id") is not None:
        parts.append(f"snapshot {result['snapshot_id']}")
    action, details = result.get("action", "write"), _details(result)
    if details.get("tag"):
        parts.append(f"tag {details['tag']}")
    counted = ", ".join(_counted(details))
    said = [", ".join(parts), *([counted] if counted else []), *_reasons(details), *details.get("warnings", ())]
    return f"{action} {result['table']}: {'; '.join(said)}"


def log_line(result: Mapping[str, Any]) -> str:
    """As `summary_line`, with what stayed as it was, levels, and where the time went; the last line of a task's log.

    `compact shop.orders: committed, snapshot 12; files 14 → 2, …; levels L0×14 → L5×2; 3.5 s: plan 0.1 s, merge 3.2 s`
    """
    details = _details(result)
    kept = [
        f"{_noun(name)} {_size(name, details[name + before])} as before"
        for before, after in [_PAIR]
        for name in ("files", "bytes", "rows")
        if name + before in details and details[name + before] == details.get(name + after)
    ]
    levels = [_levels(details[f"levels{part}"]) for part in _PAIR if details.get(f"levels{part}")]
    parts = [summary_line(result), ", ".join(kept)]
    parts += [f"levels {' → '.join(dict.fromkeys(levels))}"] if levels else []
    return "; ".join(item for item in [*parts, _times(result)] if item)


def _reasons(details: Mapping[str, Any]) -> Iterator[str]:
    """Why something was not done: the first reasons, and how many more there are."""
    omitted = details.get("omitted") or {}
    listed = [text for name in _REASONS for text in details.get(name) or () if isinstance(text, str)]
    reasons = list(dict.fromkeys(listed))
    yield from reasons[:_REASONS_MAX]
    more = len(reasons) - _REASONS_MAX + sum(omitted.get(name, 0) for name in _REASONS)
    if more > 0:
        yield f"{more} more reasons"


def _details(result: Mapping[str, Any]) -> Mapping[str, Any]:
    found: Mapping[str, Any] = result.get("details", result)
    return found


def _levels(counts: Mapping[str, int]) -> str:
    return " ".join(f"L{level}×{count}" for level, count in counts.items())


def _times(result: Mapping[str, Any]) -> str:
    """The seconds of the action, of its phases, and of the start of Spark before it."""
    phases = ", ".join(f"{name} {seconds:.1f} s" for name, seconds in (result.get("phases") or {}).items())
    took = f"{result.get('seconds', 0.0):.1f} s{': ' if phases else ''}{phases}"
    startup = result.get("startup_seconds") or 0.0
    return f"{took}, after {startup:.1f} s for the start of Spark" if startup >= _STARTUP_MIN_S else took


def _counted(details: Mapping[str, Any]) -> Iterator[str]:
    """Numbers before and after, numbers that are not 0, and how many there are of what is listed."""
    omitted = details.get("omitted") or {}
    for name, value in details.items():
        if name in _NOT_SAID or name.endswith(("_id", "_ms", _PAIR[1])) or isinstance(value, bool | float):
            continue
        if name.endswith(_PAIR[0]):
            noun = name.removesuffix(_PAIR[0])
            after = details.get(noun + _PAIR[1])
            if isinstance(value, int) and isinstance(after, int) and value != after:
                yield f"{_noun(noun)} {_size(noun, value)} → {_size(noun, after)}"
        elif isinstance(value, int) and value:
            yield f"{_noun(name)} {_size(name, value)}"
        elif isinstance(value, list) and value and not (name in _REASONS and isinstance(value[0], str)):
            yield f"{_noun(name)} {len(value) + omitted.get(name, 0)}"


def _noun(name: str) -> str:
    return name.replace("_", " ")


def _size(name: str, value: int) -> str:
    """A number, of bytes in the unit that fits."""
    if not name.endswith("bytes") and not name.startswith("bytes"):
        return str(value)
    size, unit = float(value), 0
    while size >= 1024 and unit < len(_UNITS) - 1:
        size, unit = size / 1024, unit + 1
    return str(value) if unit == 0 else f"{size:.1f} {_UNITS[unit]}"
