"""A Parquet file whose pages are checked while Arrow reads them, before it unpacks them.

The sizes in a footer may be wrong, and each page declares how much memory it needs. Reading
all headers first would take a request for each from an object store, and of lists it is not known which pages have the
rows of a batch. Here the bytes that Arrow reads anyway pass by: where the header of a page is among them, it is checked
against the limits of `parquet_page_sizes`.
"""

from __future__ import annotations

import io
from bisect import bisect_right
from collections import deque
from collections.abc import Collection, Mapping, Sequence
from itertools import accumulate
from typing import BinaryIO, Final, Protocol, cast, runtime_checkable

import pyarrow.parquet as pq

from paimon_engine.format.parquet_page_sizes import ChunkPages, chunks_to_read, page_head
from paimon_engine.format.thrift_compact import DECODE_ERRORS

_HEADER_BYTES_MAX: Final = 16 << 20
"""Arrow takes no longer header (`parquet::kDefaultMaxPageHeaderSize`)."""


@runtime_checkable
class Ranged(Protocol):
    """A file of a store that takes long to answer, and that wants to know what is read next (`storage.remote_file`)."""

    def look(self) -> None:
        """From now on only a little is read here and there."""

    def expect(self, groups: Sequence[Sequence[tuple[int, int]]], size_bytes: int) -> None:
        """From now on these ranges, by begin and end, are read in order, those of a group in turns."""


class WatchedFile:
    """A file to read, for Arrow; reading raises CorruptTableError at a page that is too large."""

    closed = False
    """The file's owner closes it."""

    def __init__(self, source: BinaryIO, path: str) -> None:
        """Nothing is watched before `expect`."""
        self._source = source
        # Asked once: looking for the methods of a protocol takes 10 µs.
        self._ranged = source if isinstance(source, Ranged) else None
        self._path = path
        self._begins: list[int] = []
        self._chunks: list[_Chunk] = []
        self._read_in_batch: list[_Chunk] = []
        self._groups: list[list[tuple[int, int]]] = []
        self._unread: deque[tuple[int, list[ChunkPages]]] = deque()
        """Of row groups from the one on that is read: where it ends among all rows, and its chunks."""
        self._at = 0
        self._end: int | None = None

    @property
    def file(self) -> BinaryIO:
        """What Arrow reads."""
        return cast("BinaryIO", self)

    @property
    def is_ranged(self) -> bool:
        """Whether the file is one of a store that takes long to answer."""
        return self._ranged is not None

    def expect(
        self,
        metadata: pq.FileMetaData,
        indices: Collection[int],
        row_groups: Sequence[int],
        *,
        batch_rows: int,
    ) -> None:
        """From now on the chunks of the columns at these indices, in these row groups, are read.

        Raises: CorruptTableError if they overlap.
        """
        groups = chunks_to_read(metadata, row_groups, indices, self._path, batch_rows=batch_rows)
        self._chunks = sorted((_Chunk(pages) for group in groups for pages in group), key=lambda one: one.pages.begin)
        self._begins = [chunk.pages.begin for chunk in self._chunks]
        self._groups = [[(pages.begin, pages.end) for pages in group] for group in groups]
        ends = accumulate(metadata.row_group(number).num_rows for number in row_groups)
        self._unread = deque(zip(ends, groups, strict=True))
        if self._ranged is not None:
            self._ranged.look()

    def look(self, row_group: int, indices: Collection[int]) -> None:
        """Some rows of these columns in a row group are read now, and checked when they pass by."""

    def expect_again(
        self,
        longest_bytes: Mapping[int, int],
        *,
        batch_rows: int,
        size_bytes: int,
        end: int | None = None,  # noqa: ARG002 - pages tell what is read
    ) -> None:
        """The same chunks are read once more from their begin, and at most so many bytes of a row group held at a time.

        For each index comes the longest value of its dictionaries, not used behind a plain page; 0: it may be.
        """
        for chunk in self._chunks:
            chunk.restart(batch_rows, longest_bytes[chunk.pages.index])
        if self._ranged is not None:
            self._ranged.expect(self._groups, size_bytes)

    def finish(self) -> None:
        """They are not read any more."""
        if self._ranged is not None:
            self._ranged.expect((), 0)

    def begin_batch(self, row: int) -> None:  # noqa: ARG002 - pages tell what is read
        """The rows from there on are decoded now."""
        # A large file has as many chunks as batches, and more: not all of them for each batch.
        for chunk in self._read_in_batch:
            chunk.pages.begin_batch()
        self._read_in_batch.clear()

    def end_batch(self, row: int) -> None:
        """The rows in front of that one have been decoded.

        Raises: CorruptTableError if the pages of their row groups have fewer values than the footer says: of the last
        list, Arrow leaves them out.
        """
        while self._unread and self._unread[0][0] <= row:
            for pages in self._unread.popleft()[1]:
                if not pages.is_complete:
                    pages.refuse_values()

    def read(self, size: int = -1) -> bytes:
        """The next bytes."""
        begin, data = self._at, self._source.read(size)
        self._at += len(data)
        number = bisect_right(self._begins, begin) - 1
        if number >= 0:
            chunk = self._chunks[number]
            self._read_in_batch.append(chunk)
            chunk.pass_by(begin, data)
        return data

    def seek(self, offset: int, whence: int = 0) -> int:
        """Goes to an offset."""
        if whence == io.SEEK_END:
            if self._end is None:
                self._source.seek(0, whence)
                self._end = self._source.tell()
            # A buffered reader forgets what it has when it is sent to the end.
            offset, whence = self._end + offset, io.SEEK_SET
        self._source.seek(offset, whence)
        self._at = self._source.tell() if whence else offset
        return self._at

    def tell(self) -> int:
        """The offset of the next byte."""
        return self._at

    def readable(self) -> bool:
        """Whether it can be read: yes."""
        return True

    def writable(self) -> bool:
        """Whether it can be written: no."""
        return False

    def seekable(self) -> bool:
        """Whether `seek` works: yes."""
        return True

    def flush(self) -> None:
        """Nothing."""

    def close(self) -> None:
        """Nothing: the file's owner closes it."""


class _Chunk:
    """A column chunk, whose bytes pass by in order, some of them perhaps again."""

    def __init__(self, pages: ChunkPages) -> None:
        self.pages = pages
        self._partial_header = b""
        """Bytes from the begin of a header on, of which the rest was not read yet."""

    def restart(self, batch_rows: int, longest_bytes: int) -> None:
        """As `ChunkPages.restart`."""
        self._partial_header = b""
        self.pages.restart(batch_rows, longest_bytes)

    def pass_by(self, begin: int, data: bytes) -> None:
        """Bytes of the file, from that offset on.

        Raises: CorruptTableError.
        """
        pages, end = self.pages, begin + len(data)
        while not pages.is_complete:
            known = pages.at + len(self._partial_header)
            if known >= end:
                return
            if known < begin:
                # Arrow reads a chunk from its begin, so that this offset comes later, or never.
                return
            if self._partial_header:
                data, begin, self._partial_header = self._partial_header + data[known - begin :], pages.at, b""
            try:
                head, behind = page_head(data, pages.at - begin)
            except IndexError as error:
                self._partial_header = data[pages.at - begin :]
                if len(self._partial_header) > _HEADER_BYTES_MAX:
                    pages.refuse_header(error)
                return
            except DECODE_ERRORS as error:
                pages.refuse_header(error)
            pages.add(head, begin + behind)
