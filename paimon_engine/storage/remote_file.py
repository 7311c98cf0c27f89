"""A file of a store that takes long to answer, read in ranges: few requests, and several of them under way at once.

Without a word about what is read next, a request fetches some megabytes from there on. Columns of a Parquet file are
read in turns, some of each, so that this would fetch most bytes several times. So their reader says which ranges it
reads (`expect`): each is fetched in pieces, the next one while the last one is read, and small neighbours together.
"""

from __future__ import annotations

import io
from bisect import bisect_right
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from itertools import chain, pairwise
from typing import Final

from paimon_engine.storage.requests import request_pool

ReadRange = Callable[[int, int], bytes]
"""Bytes of a file from a position on, so many of them, or fewer."""

READ_AHEAD_BYTES: Final = 4 << 20
LOOK_BYTES: Final = 1 << 18
"""What a request fetches where a reader only looks at what a range begins with."""
_PIECE_BYTES_MIN: Final = 1 << 16
_PIECES: Final = 3
"""Pieces of a range that are held at a time: the one that is read, and two that are fetched meanwhile. A batch of rows
often ends a little behind a piece, and its columns are read one after another, so that each would be waited for."""
_GAP_BYTES_MAX: Final = 1 << 12

Range = tuple[int, int]
"""Begin and end."""


class RemoteFile(io.RawIOBase):
    """Random access to such a file; a read gives all bytes that are requested, unless the file ends before.

    Raises what `read_range` raises, at the latest where the bytes are read.
    """

    def __init__(self, path: str, size_bytes: int, read_range: ReadRange, *, from_threads: bool = True) -> None:
        """`from_threads`: whether `read_range` may be called by several threads at once."""
        self._path = path
        self._size = size_bytes
        self._read_range = read_range
        self._from_threads = from_threads
        self._at = 0
        self._ahead_bytes = READ_AHEAD_BYTES
        self._buffer_begin, self._buffer = 0, b""
        self._lanes: list[_Lane] = []
        self._begins: list[int] = []

    def hold_end(self) -> None:
        """Fetches what the file ends with, so that a reader who begins there does not wait for it."""
        begin = max(0, self._size - LOOK_BYTES)
        self._buffer_begin, self._buffer = begin, self._fetched(begin, self._size - begin)

    def look(self) -> None:
        """From now on only a little is read here and there."""
        self._ahead_bytes, self._lanes, self._begins = LOOK_BYTES, [], []

    def expect(self, groups: Sequence[Sequence[Range]], size_bytes: int) -> None:
        """From now on these ranges are read, each of them in order, those of a group in turns; else as usual.

        The groups are read one after another. At most about `size_bytes` of one are held at a time.
        """
        self._ahead_bytes = READ_AHEAD_BYTES
        found = [_lanes(number, ranges, size_bytes, self._begin) for number, ranges in enumerate(groups)]
        for lanes, following in pairwise(found):
            for number, lane in enumerate(following):
                lanes[min(number, len(lanes) - 1)].following.append(lane)
        self._lanes = sorted(chain.from_iterable(found), key=lambda lane: lane.begin)
        self._begins = [lane.begin for lane in self._lanes]

    def _begin(self, begin: int, count: int) -> Callable[[], bytes]:
        """Begins to fetch a range; a function that gives it."""
        if not self._from_threads:
            return lambda: self._fetched(begin, count)
        future: Future[bytes] = request_pool().submit(self._fetched, begin, count)
        return future.result

    def _fetched(self, begin: int, count: int) -> bytes:
        parts: list[bytes] = []
        while count > 0 and (data := self._read_range(begin, count)):
            parts.append(data)
            begin, count = begin + len(data), count - len(data)
        return parts[0] if len(parts) == 1 else b"".join(parts)

    def read(self, size: int | None = -1) -> bytes:
        """So many bytes, or up to the end."""
        left = max(0, self._size - self._at)
        left = left if size is None or size < 0 else min(size, left)
        parts: list[bytes] = []
        while left and (data := self._some(left)):
            parts.append(data)
            self._at += len(data)
            left -= len(data)
        return parts[0] if len(parts) == 1 else b"".join(parts)

    def _some(self, count: int) -> bytes:
        """Up to so many bytes from here on, and at least one."""
        number = bisect_right(self._begins, self._at) - 1
        if number >= 0 and self._at < self._lanes[number].end:
            lane = self._lanes[number]
            if not lane.is_started:
                self._start(lane.group)
            return lane.read(self._at, count)
        offset = self._at - self._buffer_begin
        if not 0 <= offset < len(self._buffer):
            if count >= self._ahead_bytes:
                return self._fetched(self._at, count)
            self._buffer_begin, offset = self._at, 0
            self._buffer = self._fetched(self._at, min(self._ahead_bytes, self._size - self._at))
        return self._buffer[offset : offset + count]

    def _start(self, group: int) -> None:
        """Begins to fetch what a group begins with; of those before, only the last one may still be read."""
        for lane in self._lanes:
            if lane.group == group:
                lane.start()
            elif lane.group < group - 1:
                lane.release()

    def readall(self) -> bytes:
        """The rest of the file."""
        return self.read()

    def readinto(self, target: bytearray | memoryview) -> int:  # type: ignore[override]
        view = memoryview(target).cast("B")
        data = self.read(len(view))
        view[: len(data)] = data
        return len(data)

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        base = {io.SEEK_SET: 0, io.SEEK_CUR: self._at, io.SEEK_END: self._size}[whence]
        if base + offset < 0:
            raise ValueError(f"{self._path}: negative position {base + offset}")
        self._at = base + offset
        return self._at

    def tell(self) -> int:
        return self._at


class _Lane:
    """A range that is read in order, in pieces of which the next ones are fetched ahead; or several, in a single piece.

    With its last piece the ranges `following` it begin, so that one group is fetched while the one before is read.
    """

    def __init__(
        self, group: int, ranges: Sequence[Range], piece_bytes: int, fetch: Callable[[int, int], Callable[[], bytes]]
    ) -> None:
        self.group, self.begin, self.end = group, ranges[0][0], ranges[-1][1]
        self._unread_bytes = sum(end - begin for begin, end in ranges)
        self._piece_bytes = piece_bytes
        self._fetch = fetch
        self._piece_begin, self._piece = self.begin, b""
        self._ahead: deque[tuple[int, Callable[[], bytes]]] = deque()
        self._ahead_end = self.begin
        self.is_started = False
        self.following: list[_Lane] = []

    def start(self) -> None:
        """Begins to fetch the first pieces, once."""
        if not self.is_started:
            self.is_started = True
            self._fetch_on()

    def release(self) -> None:
        """Forgets what was fetched; it is fetched again if it is read nevertheless."""
        self._piece = b""
        self._ahead.clear()

    def _fetch_on(self) -> None:
        """Begins to fetch the next pieces, and behind the last one what follows."""
        while len(self._ahead) < _PIECES - 1 and self._ahead_end < self.end:
            count = min(self._piece_bytes, self.end - self._ahead_end)
            self._ahead.append((self._ahead_end, self._fetch(self._ahead_end, count)))
            self._ahead_end += count
        if self._ahead_end >= self.end and not self._ahead:
            for lane in self.following:
                lane.start()

    def read(self, at: int, count: int) -> bytes:
        """Up to so many bytes from a position within the range on."""
        if not self._piece_begin <= at < self._piece_begin + len(self._piece):
            while self._ahead and not self._ahead[0][0] <= at < self._ahead[0][0] + self._piece_bytes:
                self._ahead.popleft()
            if not self._ahead:
                self._ahead_end = at
                self._fetch_on()
            self._piece = b""  # Released before the next one is here.
            self._piece_begin, fetched = self._ahead.popleft()
            self._piece = fetched()
            self._fetch_on()
        data = self._piece[at - self._piece_begin : at - self._piece_begin + count]
        if self._unread_bytes > 0:
            # Once: what is read again after that, as by a second reader, is held like the rest.
            self._unread_bytes -= len(data)
            if self._unread_bytes <= 0:
                self.release()
        return data


def _lanes(
    group: int, ranges: Sequence[Range], size_bytes: int, fetch: Callable[[int, int], Callable[[], bytes]]
) -> list[_Lane]:
    """The ranges, small neighbours joined, with pieces of which `_PIECES` of each take about `size_bytes`.

    All have about as many pieces, since readers come to the ends of columns at the same time: a large column in small
    pieces would be waited for again and again.
    """
    if not ranges:
        return []
    # This group and the next one may be held completely; or some pieces of each range.
    total_bytes = sum(end - begin for begin, end in ranges)
    is_held = 2 * total_bytes <= size_bytes
    share = 1.0 if is_held else size_bytes / (_PIECES * total_bytes)

    def piece_bytes(length: int) -> int:
        return min(READ_AHEAD_BYTES, max(_PIECE_BYTES_MIN, int(length * share)))

    small_bytes = READ_AHEAD_BYTES if is_held else max(_PIECE_BYTES_MIN, size_bytes // (_PIECES * len(ranges)))
    joined: list[list[Range]] = []
    for begin, end in sorted(ranges):
        if joined and begin - joined[-1][-1][1] <= _GAP_BYTES_MAX and end - joined[-1][0][0] <= small_bytes:
            joined[-1].append((begin, end))
        else:
            joined.append([(begin, end)])
    return [
        _Lane(group, some, small_bytes if len(some) > 1 else piece_bytes(some[0][1] - some[0][0]), fetch)
        for some in joined
    ]
