"""Bitmaps of 32-bit and 64-bit numbers in the bytes of Java's RoaringBitmap, and their union.

A bitmap is cut by the upper bits of its numbers into *containers* of the lower 16 bits, each in one of three forms:

| form | bytes, little endian |
| --- | --- |
| array | the numbers, 2 bytes each, ascending |
| bits | 65536 bits |
| runs | number of runs, then first number and length − 1 of each, 2 bytes each |

1. `union_32` works on the portable form: a cookie, key and size of each container, offsets, containers.
   `containers_32` gives these as they are stored.
2. `union_64` works on the form of `Roaring64Bitmap`: the keys of 6 bytes are in a radix tree, whose leaves say where
   in a list the container is. How nodes and list have grown shows in the bytes, so the union grows them likewise.

The form of a container after a union follows from the forms before, not from the numbers alone; `_union` and
`_optimised` have these rules. The bytes are those that Java gives for the same union.

Source: `RoaringArray`, `HighLowContainer`, `Art`, `Containers` and the containers of RoaringBitmap 1.0 (Java).
"""

from __future__ import annotations

import struct
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Any, Final, TypeAlias

import numpy as np
import numpy.typing as npt

from paimon_engine.errors import InvalidArgumentError

_Numbers: TypeAlias = npt.NDArray[np.uint16]

Body: TypeAlias = npt.NDArray[Any]
"""A container as it is stored: numbers [n], 8192 bytes of bits, or first number and length − 1 of each run [n, 2]."""

ARRAY_SIZE_MAX: Final = 4096
"""Numbers of a container above which it is not an array in the portable form."""
BITS_BYTES: Final = 8192
COOKIE: Final = 12346
_COOKIE_WITH_RUNS: Final = 12347
_FULL: Final = 65536


class _Form(IntEnum):
    """Forms of a container, by their numbers in 64-bit bitmaps."""

    RUNS = 0
    BITS = 1
    ARRAY = 2


@dataclass(frozen=True, slots=True)
class _Container:
    """Ascending numbers of 16 bits, and the form in which they are kept."""

    form: _Form
    numbers: _Numbers

    def __len__(self) -> int:
        return len(self.numbers)

    @property
    def run_count(self) -> int:
        """How many runs the numbers make."""
        return int((np.diff(self.numbers.astype(np.int32)) != 1).sum()) + 1 if len(self.numbers) else 0

    def to_bytes(self) -> bytes:
        """The bytes of the numbers."""
        match self.form:
            case _Form.ARRAY:
                return self.numbers.astype("<u2").tobytes()
            case _Form.BITS:
                return bits_of(self.numbers).tobytes()
            case _Form.RUNS:
                breaks = np.flatnonzero(np.diff(self.numbers.astype(np.int32)) != 1)
                first = self.numbers[np.append(0, breaks + 1)]
                last = self.numbers[np.append(breaks, len(self.numbers) - 1)]
                pairs = np.column_stack([first, last - first]).astype("<u2")
                return struct.pack("<H", len(pairs)) + pairs.tobytes()


class _Reader:
    """Bytes and how far they were read."""

    def __init__(self, data: bytes | memoryview, at: int = 0) -> None:
        self._data = data
        self.at = at

    def take(self, count: int) -> bytes | memoryview:
        if count < 0 or self.at + count > len(self._data):
            raise ValueError(f"{count} bytes at {self.at} of {len(self._data)}")
        self.at += count
        return self._data[self.at - count : self.at]

    def number(self, form: str) -> int:
        return int(struct.unpack("<" + form, self.take(struct.calcsize(form)))[0])

    def body(self, form: _Form, size: int) -> Body:
        """A container of that many numbers."""
        match form:
            case _Form.ARRAY:
                return np.frombuffer(self.take(2 * size), dtype="<u2")
            case _Form.BITS:
                return np.frombuffer(self.take(BITS_BYTES), dtype=np.uint8)
            case _Form.RUNS:
                return np.frombuffer(self.take(4 * self.number("H")), dtype="<u2").reshape(-1, 2)


def bits_of(body: Body) -> npt.NDArray[np.uint8]:
    """The 8192 bytes of bits of a container.

    Raises: ValueError for runs that are not ascending ones.
    """
    if body.dtype == np.uint8:
        return body
    if body.ndim == 1:
        flags = np.zeros(_FULL, dtype=np.uint8)
        flags[body] = 1
    else:
        first = body[:, 0].astype(np.int64)
        edges = np.column_stack([first, first + body[:, 1] + 1]).ravel()
        lengths = np.diff(edges, prepend=0, append=_FULL)
        flags = np.repeat(np.arange(len(lengths)).astype(np.uint8) & 1, lengths)
    return np.packbits(flags, bitorder="little")


def _container(body: Body) -> _Container:
    if not len(body):
        raise ValueError("a container without numbers")
    if body.dtype != np.uint8 and body.ndim == 1:
        return _Container(_Form.ARRAY, body)
    numbers = np.flatnonzero(np.unpackbits(bits_of(body), bitorder="little")).astype(np.uint16)
    return _Container(_Form.RUNS if body.ndim == 2 else _Form.BITS, numbers)


# ── containers ──────────────────────────────────────────────────────────────────────────────────


def _runs_bytes(run_count: int) -> int:
    return 2 + 4 * run_count


def _union(one: _Container, other: _Container) -> _Container:
    """The union, in the form in which Java leaves it."""
    merged = _Container(_Form.ARRAY, np.union1d(one.numbers, other.numbers))
    plain = _Form.ARRAY if len(merged) <= ARRAY_SIZE_MAX else _Form.BITS
    forms = {one.form, other.form}
    if len(merged) == _FULL:
        form = _Form.RUNS
    elif forms == {_Form.RUNS}:
        form = _Form.RUNS if _runs_bytes(merged.run_count) < BITS_BYTES else _Form.BITS
    elif forms == {_Form.RUNS, _Form.ARRAY}:
        smallest = min(BITS_BYTES, 2 + 2 * len(merged))
        form = _Form.RUNS if _runs_bytes(merged.run_count) <= smallest else plain
    else:
        form = _Form.BITS if _Form.BITS in forms else plain
    return _Container(form, merged.numbers)


def _optimised(container: _Container) -> _Container:
    """The container as runs, if it takes fewer bytes so."""
    if container.form is _Form.RUNS:
        return container
    now = BITS_BYTES if container.form is _Form.BITS else 2 * len(container)
    return _Container(_Form.RUNS, container.numbers) if now > _runs_bytes(container.run_count) else container


def _without_runs(container: _Container) -> _Container:
    """The container as array or bits, if that takes fewer bytes than its runs."""
    if container.form is _Form.RUNS:
        if _runs_bytes(container.run_count) <= min(BITS_BYTES, 2 + 2 * len(container)):
            return container
    elif container.form is _Form.ARRAY or len(container) > ARRAY_SIZE_MAX:
        return container
    form = _Form.ARRAY if len(container) <= ARRAY_SIZE_MAX else _Form.BITS
    return _Container(form, container.numbers)


# ── 32 bits ─────────────────────────────────────────────────────────────────────────────────────

_OFFSETS_FROM: Final = 4
"""With runs, offsets are left out where there are fewer containers."""


def union_32(one: bytes, other: bytes) -> bytes:
    """Union of two serialised bitmaps of 32-bit numbers.

    Raises: InvalidArgumentError if the bytes are not valid bitmaps.
    """
    merged = _read_32(one)
    for key, container in _read_32(other).items():
        merged[key] = _union(merged[key], container) if key in merged else container
    return _write_32({key: _without_runs(_optimised(merged[key])) for key in sorted(merged)})


def containers_32(data: bytes | memoryview, begin: int = 0) -> tuple[dict[int, Body], int]:
    """Containers of the serialised bitmap of 32-bit numbers that begins there, by key, and where it ends.

    Raises: ValueError, struct.error if the bytes are not a valid bitmap.
    """
    reader = _Reader(data, begin)
    cookie = reader.number("I")
    has_runs = cookie & 0xFFFF == _COOKIE_WITH_RUNS
    if not has_runs and cookie != COOKIE:
        raise ValueError(f"expected cookie {COOKIE} or {_COOKIE_WITH_RUNS}, found {cookie}")
    count = (cookie >> 16) + 1 if has_runs else reader.number("I")
    flags = reader.take((count + 7) // 8) if has_runs else bytes((count + 7) // 8)
    heads = struct.unpack(f"<{2 * count}H", reader.take(4 * count))
    if not has_runs or count >= _OFFSETS_FROM:
        reader.take(4 * count)
    keys, lasts = heads[::2], heads[1::2]
    if not has_runs and min(lasts, default=0) >= ARRAY_SIZE_MAX:
        # As vectors of many rows are.
        bodies = np.frombuffer(reader.take(count * BITS_BYTES), np.uint8).reshape(count, -1)
        return dict(zip(keys, bodies, strict=True)), reader.at
    found = {}
    for index, (key, last) in enumerate(zip(keys, lasts, strict=True)):
        plain = _Form.ARRAY if last < ARRAY_SIZE_MAX else _Form.BITS
        form = _Form.RUNS if flags[index >> 3] >> (index & 7) & 1 else plain
        found[key] = reader.body(form, last + 1)
    return found, reader.at


def _read_32(data: bytes) -> dict[int, _Container]:
    try:
        return {key: _container(body) for key, body in containers_32(data)[0].items()}
    except (ValueError, struct.error) as error:
        raise InvalidArgumentError(f"the bytes {data[:16].hex()}… are not a 32 bit RoaringBitmap: {error}") from error


def _write_32(containers: dict[int, _Container]) -> bytes:
    """A bitmap of 32-bit numbers in Roaring's portable form, as Java's library writes it: containers by upper 16 bits.

    Offsets of containers are left out where some are runs and there are fewer than `_OFFSETS_FROM`.
    """
    has_runs = any(container.form is _Form.RUNS for container in containers.values())
    count = len(containers)
    if has_runs:
        flags = np.packbits([one.form is _Form.RUNS for one in containers.values()], bitorder="little")
        head = struct.pack("<I", _COOKIE_WITH_RUNS | count - 1 << 16) + flags.tobytes()
    else:
        head = struct.pack("<II", COOKIE, count)
    head += b"".join(struct.pack("<HH", key, len(one) - 1) for key, one in containers.items())
    bodies = [one.to_bytes() for one in containers.values()]
    if not has_runs or count >= _OFFSETS_FROM:
        sizes = [len(body) for body in bodies]
        offsets = np.cumsum([len(head) + 4 * count, *sizes])[:count]
        head += offsets.astype("<u4").tobytes()
    return head + b"".join(bodies)


# ── 64 bits ─────────────────────────────────────────────────────────────────────────────────────

_KEY_BYTES: Final = 6
_LEAF: Final = 4
_UNUSED: Final = 0xFF


@dataclass(slots=True)
class _Leaf:
    """The slot of a key's container."""

    key: bytes
    slot: int
    prefix: bytes = b""

    def to_bytes(self) -> bytes:
        return struct.pack("<BHB", _LEAF, 0, len(self.prefix)) + self.prefix + self.key + struct.pack("<Q", self.slot)


@dataclass(slots=True)
class _Branch:
    """An inner node: children by the byte behind `prefix`, in one of four sizes.

    `body` is what is stored of them: bytes of the children in order (sizes 4 and 16), for each byte its slot
    (size 48), or a bit for each byte (size 256).
    """

    kind: int
    prefix: bytes
    body: bytearray
    children: dict[int, _Node] = field(default_factory=dict)

    def to_bytes(self) -> bytes:
        head = struct.pack("<BHB", self.kind, len(self.children), len(self.prefix)) + self.prefix
        parts = [self.children[byte].to_bytes() for byte in sorted(self.children)]
        return head + _words_swapped(bytes(self.body), self.kind) + b"".join(parts)

    def add(self, byte: int, child: _Node) -> None:
        """Takes in a child of a byte that has none, and grows if it is full."""
        count = len(self.children)
        if count == _CAPACITY[self.kind]:
            self._grow()
        self.children[byte] = child
        match self.kind:
            case 0 | 1:
                self.body[count] = byte
                self.body[: count + 1] = bytes(sorted(self.body[: count + 1]))
            case 2:
                taken = set(self.body) - {_UNUSED}
                self.body[byte] = count if count not in taken else min(set(range(_CAPACITY[2])) - taken)
            case _:
                self.body[byte >> 3] |= 1 << (byte & 7)

    def _grow(self) -> None:
        before = bytes(self.body)
        self.kind += 1
        if self.kind == 1:
            self.body = bytearray(before.ljust(_BODY_BYTES[1], b"\0"))
        elif self.kind == 2:
            self.body = bytearray([_UNUSED]) * _BODY_BYTES[2]
            for slot, byte in enumerate(before):
                self.body[byte] = slot
        else:
            self.body = bytearray(_BODY_BYTES[3])
            for byte in self.children:
                self.body[byte >> 3] |= 1 << (byte & 7)


_Node: TypeAlias = _Branch | _Leaf
_CAPACITY: Final = (4, 16, 48, 256)
_BODY_BYTES: Final = (4, 16, 256, 32)


def _words_swapped(body: bytes, kind: int) -> bytes:
    """The body of a node as it is stored, or back: as integers with the low byte first."""
    if kind == len(_CAPACITY) - 1:
        return body
    width = 4 if kind == 0 else 8
    return b"".join(body[at : at + width][::-1] for at in range(0, len(body), width))


@dataclass(slots=True)
class _Bitmap64:
    """A bitmap of 64-bit numbers: the tree, its leaves by key, and the lists of containers with their free room."""

    root: _Node | None = None
    leaves: dict[bytes, _Leaf] = field(default_factory=dict)
    lists: list[list[_Container | None]] = field(default_factory=list)
    last_list: int = -1
    last_slot: int = 0

    def container(self, key: bytes) -> _Container | None:
        leaf = self.leaves.get(key)
        return None if leaf is None else self.lists[leaf.slot >> 32][leaf.slot & 0xFFFFFFFF]

    def put(self, key: bytes, container: _Container) -> None:
        """Sets the container of a key."""
        leaf = self.leaves.get(key)
        if leaf is None:
            leaf = _Leaf(key, self._free_slot())
            self.leaves[key] = leaf
            self.root = _inserted(self.root, leaf, 0)
        self.lists[leaf.slot >> 32][leaf.slot & 0xFFFFFFFF] = container

    def _free_slot(self) -> int:
        if self.last_list == -1:
            self.lists.append([None])
            self.last_list, self.last_slot = 0, 0
        else:
            self.last_slot += 1
        room = self.lists[self.last_list]
        if self.last_slot >= len(room):
            wanted = max(self.last_slot + 1, len(room) + (len(room) >> 1))
            room += [None] * (wanted - len(room))
        return self.last_list << 32 | self.last_slot

    def to_bytes(self) -> bytes:
        if self.root is None:
            return b"\0"
        parts = [b"\1", struct.pack("<Q", len(self.leaves)), self.root.to_bytes(), struct.pack("<I", len(self.lists))]
        for room in self.lists:
            parts.append(struct.pack("<bI", -2, len(room)))
            for one in room:
                parts.append(b"\0" if one is None else struct.pack("<BBI", 1, one.form, len(one)) + one.to_bytes())
        present = sum(one is not None for room in self.lists for one in room)
        return b"".join(parts) + struct.pack("<Qii", present, self.last_list, self.last_slot)


def _inserted(node: _Node | None, leaf: _Leaf, depth: int) -> _Node:
    """The node with one more leaf below it; `depth` bytes of the key are above it."""
    if node is None:
        return leaf
    rest = leaf.key[depth:]
    own = node.key[depth:] if isinstance(node, _Leaf) else node.prefix
    common = next((at for at, (a, b) in enumerate(zip(own, rest, strict=False)) if a != b), len(own))
    if isinstance(node, _Branch) and common == len(own):
        byte = rest[common]
        if byte in node.children:
            node.children[byte] = _inserted(node.children[byte], leaf, depth + common + 1)
        else:
            node.add(byte, leaf)
        return node
    node.prefix = b"" if isinstance(node, _Leaf) else own[common + 1 :]
    above = _Branch(0, own[:common], bytearray(_BODY_BYTES[0]))
    above.add(own[common], node)
    above.add(rest[common], leaf)
    return above


def union_64(one: bytes, other: bytes) -> bytes:
    """Union of two serialised `Roaring64Bitmap`s; `one` is the one to which the other's numbers are added.

    Raises: InvalidArgumentError if the bytes are not valid bitmaps.
    """
    merged, added = _read_64(one), _read_64(other)
    for key in sorted(added.leaves):
        container, present = added.container(key), merged.container(key)
        if container is not None:
            merged.put(key, container if present is None else _union(present, container))
    for room in merged.lists:
        room[:] = [None if container is None else _optimised(container) for container in room]
    return merged.to_bytes()


def _read_64(data: bytes) -> _Bitmap64:
    """Parses the serialised `Roaring64Bitmap` of Java's library, and checks that its tree and its containers agree.

    Raises: InvalidArgumentError.
    """
    reader, bitmap = _Reader(data), _Bitmap64()
    try:
        if reader.number("B") == 0:
            return bitmap
        count = reader.number("Q")
        bitmap.root = _read_node(reader, bitmap.leaves, 0)
        for _ in range(reader.number("I")):
            reader.number("b")
            bitmap.lists.append([_read_entry(reader) for _ in range(reader.number("I"))])
        reader.number("Q")
        bitmap.last_list, bitmap.last_slot = reader.number("i"), reader.number("i")
        for key in bitmap.leaves:
            if bitmap.container(key) is None:
                raise ValueError(f"key {key.hex()} has no container")  # noqa: TRY301
        if count != len(bitmap.leaves):
            raise ValueError(f"expected {count} keys, found {len(bitmap.leaves)}")  # noqa: TRY301
    except (ValueError, IndexError, struct.error) as error:
        raise InvalidArgumentError(f"the bytes {data[:16].hex()}… are not a Roaring64Bitmap: {error}") from error
    return bitmap


def _read_entry(reader: _Reader) -> _Container | None:
    if reader.number("B") == 0:
        return None
    form = _Form(reader.number("B"))
    return _container(reader.body(form, reader.number("I")))


def _read_node(reader: _Reader, leaves: dict[bytes, _Leaf], depth: int) -> _Node:
    """Reads a node of the radix tree and all below it; its leaves are added to `leaves`. Raises: ValueError."""
    kind, count = reader.number("B"), reader.number("H")
    prefix = bytes(reader.take(reader.number("B")))
    if kind == _LEAF:
        leaf = _Leaf(bytes(reader.take(_KEY_BYTES)), reader.number("Q"), prefix)
        leaves[leaf.key] = leaf
        return leaf
    if kind > _LEAF or depth >= _KEY_BYTES:
        raise ValueError(f"a node of kind {kind} at depth {depth}")
    body = bytearray(_words_swapped(bytes(reader.take(_BODY_BYTES[kind])), kind))
    bytes_of = [
        lambda: list(body[:count]),
        lambda: list(body[:count]),
        lambda: [byte for byte, slot in enumerate(body) if slot != _UNUSED],
        lambda: [byte for byte in range(256) if body[byte >> 3] >> (byte & 7) & 1],
    ][kind]()
    if len(bytes_of) != count:
        raise ValueError(f"expected {count} children, found {len(bytes_of)}")
    return _Branch(kind, prefix, body, {byte: _read_node(reader, leaves, depth + 1) for byte in bytes_of})
