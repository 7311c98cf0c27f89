"""Integers of ORC files, in runs of at most 512: bytes ↔ int64.

The two highest bits of a run say its kind: one value repeated, values of one width, values of one width with patches
for large ones, or a value and differences. Numbers with a sign have it in their lowest bit (zigzag).

Why this is not left to a library: `orc_timestamps`.

Source: the ORC specification, version 1, "Integer Run Length Encoding, version 2".
"""

from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt

from paimon_engine.format.orc_message import signed as signed_number
from paimon_engine.format.orc_message import varint

Numbers = npt.NDArray[np.int64]

_RUN_VALUES: Final = 512
_SHORT_REPEAT, _DIRECT, _PATCHED = 0, 1, 2
_WIDTHS: Final = (*range(1, 25), 26, 28, 30, 32, 40, 48, 56, 64)
"""Bits of a value, by the code of the width."""
_BYTE_WIDTHS: Final = {bits // 8: code for code, bits in enumerate(_WIDTHS) if bits % 8 == 0}
"""Code of a width, by its bytes."""


def encode_runs(values: Numbers, *, has_sign: bool) -> bytes:
    """Values as runs of one width, which is that of the largest."""
    if not len(values):
        return b""
    unsigned = ((values << 1) ^ (values >> 63) if has_sign else values).view(np.uint64)
    width = max((int(unsigned.max()).bit_length() + 7) // 8, 1)
    stored = unsigned.astype(">u8").view(np.uint8).reshape(-1, 8)[:, 8 - width :]
    whole = len(values) // _RUN_VALUES * _RUN_VALUES
    runs = stored[:whole].reshape(-1, _RUN_VALUES * width)
    heads = np.broadcast_to(np.frombuffer(_run_head(width, _RUN_VALUES), np.uint8), (len(runs), 2))
    out = np.hstack([heads, runs]).tobytes()
    left = len(values) - whole
    return out + _run_head(width, left) + stored[whole:].tobytes() if left else out


def _run_head(width: int, count: int) -> bytes:
    return (_DIRECT << 14 | _BYTE_WIDTHS[width] << 9 | count - 1).to_bytes(2, "big")


def decode_runs(data: bytes, *, has_sign: bool) -> Numbers:
    """The values of all runs.

    Raises: ValueError, IndexError where the bytes are damaged.
    """
    parts, offset = [np.empty(0, np.int64)], 0
    while offset < len(data):
        kind = data[offset] >> 6
        if kind == _SHORT_REPEAT:
            values, offset = _repeated(data, offset, has_sign=has_sign)
        elif kind == _DIRECT:
            values, offset = _direct(data, offset, has_sign=has_sign)
        elif kind == _PATCHED:
            values, offset = _patched(data, offset)
        else:
            values, offset = _differences(data, offset, has_sign=has_sign)
        parts.append(values)
    return np.concatenate(parts)


def _head(data: bytes, offset: int) -> tuple[int, int]:
    """Code of the width, and how many values."""
    return data[offset] >> 1 & 0x1F, ((data[offset] & 1) << 8 | data[offset + 1]) + 1


def _repeated(data: bytes, offset: int, *, has_sign: bool) -> tuple[Numbers, int]:
    width, count = (data[offset] >> 3 & 7) + 1, (data[offset] & 7) + 3
    value = int.from_bytes(_taken(data, offset + 1, width), "big")
    return np.full(count, _wrapped(signed_number(value) if has_sign else value)), offset + 1 + width


def _direct(data: bytes, offset: int, *, has_sign: bool) -> tuple[Numbers, int]:
    code, count = _head(data, offset)
    values, offset = _packed(data, offset + 2, _WIDTHS[code], count)
    if has_sign:
        values = (values >> np.uint64(1)) ^ (np.uint64(0) - (values & np.uint64(1)))
    return values.view(np.int64), offset


def _patched(data: bytes, offset: int) -> tuple[Numbers, int]:
    """The numbers of a run in ORC's encoding PATCHED_BASE, and the offset behind it.

    Each number is the base plus a small one of `width` bits; the few that need more have their upper bits in a list
    behind, each with the distance to the one before.
    """
    code, count = _head(data, offset)
    width = _WIDTHS[code]
    base_bytes, patch_width = (data[offset + 2] >> 5) + 1, _WIDTHS[data[offset + 2] & 0x1F]
    gap_width, patches = (data[offset + 3] >> 5) + 1, data[offset + 3] & 0x1F
    base = int.from_bytes(_taken(data, offset + 4, base_bytes), "big")
    sign = 1 << (8 * base_bytes - 1)
    base = -(base - sign) if base & sign else base
    values, offset = _packed(data, offset + 4 + base_bytes, width, count)
    entry_width = next(bits for bits in _WIDTHS if bits >= min(gap_width + patch_width, 64))
    entries, offset = _packed(data, offset, entry_width, patches)
    at = 0
    for entry in entries.tolist():
        at += entry >> patch_width
        values[at] |= np.uint64((entry & (1 << patch_width) - 1) << width & _ONES)
    return values.view(np.int64) + _wrapped(base), offset


def _differences(data: bytes, offset: int, *, has_sign: bool) -> tuple[Numbers, int]:
    code, count = _head(data, offset)
    first, offset = varint(data, offset + 2)
    step, offset = varint(data, offset)
    first, step = signed_number(first) if has_sign else first, signed_number(step)
    if code == 0:
        return _wrapped(first) + np.arange(count, dtype=np.int64) * _wrapped(step), offset
    rest, offset = _packed(data, offset, _WIDTHS[code], count - 2)
    steps = np.concatenate([np.array([_wrapped(first), _wrapped(step)]), rest.view(np.int64) * (-1 if step < 0 else 1)])
    return np.cumsum(steps, dtype=np.int64), offset


_ONES: Final = (1 << 64) - 1


def _wrapped(value: int) -> np.int64:
    """The value as its lowest 64 bits."""
    return np.uint64(value & _ONES).astype(np.int64)


def _packed(data: bytes, offset: int, width: int, count: int) -> tuple[npt.NDArray[np.uint64], int]:
    """Values of so many bits, the highest first; they end at a byte boundary."""
    size = (width * count + 7) // 8
    bits = np.unpackbits(np.frombuffer(_taken(data, offset, size), np.uint8))[: width * count].reshape(count, width)
    wide = np.zeros((count, 64), np.uint8)
    wide[:, 64 - width :] = bits
    return np.packbits(wide, axis=1).view(">u8").reshape(count).astype(np.uint64), offset + size


def _taken(data: bytes, offset: int, size: int) -> bytes:
    if offset + size > len(data):
        raise ValueError(f"a run of numbers ends behind its stream, at byte {offset}")
    return data[offset : offset + size]
