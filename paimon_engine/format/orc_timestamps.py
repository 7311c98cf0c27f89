"""Timestamps before 1970 in ORC files: writes their streams again, as all readers of ORC take them.

ORC stores a timestamp as seconds from 2015 on and nanoseconds after them. Readers take one second off where the time so
far before 1970 and has more than 999,999 nanoseconds, so writers add it. Arrow's conversion gives negative
nanoseconds instead, of which Java uses only the milliseconds, and pypaimon-rust nothing.

What would begin in the last second before 1970 looks like the first second after it. Java writes it all the
same and reads it a second late; here whole milliseconds stay as Arrow has them, and all else is refused (`orc`).

Why no library does it (measured with pyarrow 26 and pyorc 0.12, 200,000 rows of two columns):

- pyarrow has the values and no streams: it writes negative nanoseconds as said above, and refuses to read a timestamp
  of which 64 bits cannot count the nanoseconds.
- pyorc gives and takes rows as Python values: 0.08 s to write what Arrow writes in 0.013 s, 0.29 s to read what Arrow
  reads in 0.002 s, besides making the values. It gives no streams of a stripe either, counts microseconds only, and
  reads 1969-12-31 23:59:59.5, which it wrote itself, as 1970-01-01 00:00:00.5.

A stripe is `indexes | streams | footer`; the indexes contain offsets in streams, so they are dropped, for this file
only.

Source: `TimestampTreeWriter` and `TreeReaderFactory.TimestampTreeReader` of ORC's Java library; the ORC specification,
version 1, "Timestamp Columns".
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, BinaryIO, Final, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.orc as po

from paimon_engine.format.orc_message import (
    FOOTER_INDEX_STRIDE,
    FOOTER_STATISTICS,
    FOOTER_STRIPE_BYTES,
    FOOTER_STRIPES,
    MAX_UTC,
    METADATA_STRIPES,
    MIN_UTC,
    STREAM_BYTES,
    STREAM_COLUMN,
    STREAM_KIND,
    STREAMS,
    STRIPE_COLUMNS,
    STRIPE_DATA_BYTES,
    STRIPE_FOOTER_BYTES,
    STRIPE_INDEX_BYTES,
    STRIPE_OFFSET,
    TAIL_BLOCK_BYTES,
    TAIL_FOOTER_BYTES,
    TAIL_METADATA_BYTES,
    TIMESTAMPS,
    chunked,
    fields,
    message_of,
    messages,
    plain,
    zigzag,
)
from paimon_engine.format.orc_runs import Numbers, decode_runs, encode_runs

NANOS_PER_SECOND: Final = 1_000_000_000
NANOS_PER_MILLI: Final = 1_000_000
EPOCH_S: Final = 1_420_070_400
"""2015-01-01, from where seconds are counted."""

DATA, SECONDARY = 1, 5
_MAGIC: Final = b"ORC"
_BLOCK_BYTES: Final = 256 << 10
"""Bytes per chunk if the file does not say."""
_INDEX_STREAMS: Final = frozenset({6, 7, 8})
"""Row indexes and bloom filters."""


class Moments(NamedTuple):
    """Seconds since 1970 and the nanoseconds after them, of the timestamps of a column that are not null."""

    seconds: Numbers
    nanos: Numbers


PER_SECOND: Final = {"s": 1, "ms": 1_000, "us": 1_000_000, "ns": NANOS_PER_SECOND}


def moments_of(timestamps: pa.Array) -> Moments:
    """The timestamps, without nulls."""
    per_second = PER_SECOND[timestamps.type.unit]
    seconds, rest = np.divmod(np.asarray(timestamps.drop_null().cast(pa.int64())), per_second)
    return Moments(seconds, rest * (NANOS_PER_SECOND // per_second))


def needs_rewriting(moments: Moments) -> bool:
    """Whether Arrow would write some of these timestamps in a way that not all readers understand."""
    return bool(((moments.seconds < 0) & (moments.nanos != 0)).any())


def without_form(moments: Moments) -> npt.NDArray[np.bool_]:
    """Which timestamps ORC cannot store: parts of a millisecond in the last second before 1970, except its first."""
    can_be_stored: npt.NDArray[np.bool_] = (
        (moments.seconds != -1) | (moments.nanos < NANOS_PER_MILLI) | (moments.nanos % NANOS_PER_MILLI == 0)
    )
    return ~can_be_stored


def rewrite(source: BinaryIO, sink: BinaryIO) -> None:
    """Copies a file that Arrow wrote, with the timestamps in the form that all readers understand."""
    file = po.ORCFile(source)
    tail = Tail.read(source, file)
    columns = list(timestamp_columns(file.schema))
    sink.write(_MAGIC)
    offset = len(_MAGIC)
    stripes, statistics = [], []
    all_ranges: dict[int, _Range] = {}
    for number, stripe in enumerate(tail.stripes):
        stored = stripe_footer(source, stripe, tail)
        values = {column: stored_moments(source, stripe, stored, column, tail) for _, column in columns}
        ranges = {column: found for column, moments in values.items() if (found := _range(moments)) is not None}
        data, footer = rewritten_stripe(source, stripe, stored, values, tail)
        sink.write(data)
        sink.write(footer)
        sizes = {STRIPE_INDEX_BYTES: 0, STRIPE_DATA_BYTES: len(data), STRIPE_FOOTER_BYTES: len(footer)}
        stripes.append(message_of({**stripe, STRIPE_OFFSET: offset, **sizes}.items()))
        statistics.append(_with_ranges(tail.statistics[number], STRIPE_COLUMNS, ranges))
        all_ranges |= {column: _joined(found, all_ranges.get(column)) for column, found in ranges.items()}
        offset += len(data) + len(footer)
    sink.write(_tail(tail, offset - len(_MAGIC), stripes, statistics, all_ranges))


def timestamp_columns(schema: pa.Schema) -> Iterator[tuple[str, int]]:
    """The top-level column and the column number in the type tree of each timestamp, a row before its fields."""
    column_number = 0
    for field in schema:
        for part in type_tree(field.type):
            column_number += 1
            if pa.types.is_timestamp(part):
                yield field.name, column_number


def type_tree(data_type: pa.DataType) -> Iterator[pa.DataType]:
    """The type and the types in it, a row before its fields: in the order in which ORC numbers columns."""
    yield data_type
    if pa.types.is_nested(data_type):
        for index in range(data_type.num_fields):
            part = data_type.field(index).type
            # The entries of a map are not a row in ORC.
            yield from (list(type_tree(part))[1:] if pa.types.is_map(data_type) else type_tree(part))


# ── a stripe ────────────────────────────────────────────────────────────────────────────────────


def one_stripe_file(tail: Tail, stripe: Mapping[int, Any], data: bytes, footer: bytes) -> bytes:
    """A file of one stripe, without statistics of it."""
    sizes = {STRIPE_OFFSET: len(_MAGIC), STRIPE_INDEX_BYTES: 0}
    sizes |= {STRIPE_DATA_BYTES: len(data), STRIPE_FOOTER_BYTES: len(footer)}
    stripes = [message_of({**stripe, **sizes}.items())]
    return _MAGIC + data + footer + _tail(tail, len(data) + len(footer), stripes, [], {})


def rewritten_stripe(
    source: BinaryIO,
    stripe: Mapping[int, Any],
    footer: Sequence[tuple[int, Any]],
    values: Mapping[int, Moments],
    tail: Tail,
) -> tuple[bytes, bytes]:
    """Its streams and its footer, of which `footer` has the fields, with these timestamps by column."""
    offset = stripe[STRIPE_OFFSET]
    written = {column: _streams(moments) for column, moments in values.items()}
    data, streams = bytearray(), []
    for stream in (dict(fields(value)) for number, value in footer if number == STREAMS):
        source.seek(offset)
        stored = source.read(stream[STREAM_BYTES])
        offset += stream[STREAM_BYTES]
        kind, column = stream.get(STREAM_KIND, 0), stream.get(STREAM_COLUMN, 0)
        if kind in _INDEX_STREAMS:
            continue
        if column in written and kind in written[column]:
            stored = tail.chunked(written[column][kind])
        data += stored
        streams.append((STREAMS, message_of({**stream, STREAM_BYTES: len(stored)}.items())))
    rest = [part for part in footer if part[0] != STREAMS]
    return bytes(data), tail.chunked(message_of([*streams, *rest]))


def stripe_footer(source: BinaryIO, stripe: Mapping[int, Any], tail: Tail) -> list[tuple[int, Any]]:
    """The fields of a stripe's footer."""
    source.seek(stripe[STRIPE_OFFSET] + stripe.get(STRIPE_INDEX_BYTES, 0) + stripe[STRIPE_DATA_BYTES])
    return list(fields(plain(source.read(stripe[STRIPE_FOOTER_BYTES]), tail.codec)))


def stored_moments(
    source: BinaryIO, stripe: Mapping[int, Any], footer: Sequence[tuple[int, Any]], column: int, tail: Tail
) -> Moments:
    """The timestamps in the streams of a column of a stripe.

    Raises: ValueError, IndexError where the bytes are damaged.
    """
    offset, found = stripe[STRIPE_OFFSET], {DATA: b"", SECONDARY: b""}
    for stream in (dict(fields(value)) for number, value in footer if number == STREAMS):
        if stream.get(STREAM_COLUMN, 0) == column and stream.get(STREAM_KIND, 0) in found:
            source.seek(offset)
            found[stream.get(STREAM_KIND, 0)] = plain(source.read(stream[STREAM_BYTES]), tail.codec)
        offset += stream[STREAM_BYTES]
    seconds = decode_runs(found[DATA], has_sign=True) + EPOCH_S
    coded = decode_runs(found[SECONDARY], has_sign=False)
    zeros = coded & 7
    nanos = (coded >> 3) * np.power(10, np.where(zeros > 0, zeros + 1, 0))
    if len(seconds) != len(nanos):
        raise ValueError(f"{len(seconds)} seconds and {len(nanos)} nanoseconds")
    # Where Arrow wrote them they may be negative, and no second was added.
    return Moments(seconds - (((seconds < 0) & (nanos >= NANOS_PER_MILLI)) | (nanos < 0)), nanos % NANOS_PER_SECOND)


def _streams(moments: Moments) -> dict[int, bytes]:
    """The seconds, which have a sign, and the coded nanoseconds, which have none."""
    seconds, nanos = moments
    stored = seconds + ((seconds < 0) & (nanos >= NANOS_PER_MILLI))
    rest = np.where((seconds < 0) & (stored == 0), nanos - NANOS_PER_SECOND, nanos)
    return {
        DATA: encode_runs(stored - EPOCH_S, has_sign=True),
        SECONDARY: encode_runs(_coded(rest), has_sign=False),
    }


def _coded(nanos: Numbers) -> Numbers:
    """Nanoseconds without their zeros at the end, and how many zeros less one in the lowest three bits."""
    coded = nanos << 3
    for zeros in range(2, 9):
        power = 10**zeros
        coded = np.where((nanos % power == 0) & (nanos != 0), (nanos // power << 3) | (zeros - 1), coded)
    return coded


# ── ranges and the tail of the file ─────────────────────────────────────────────────────────────

_Range = tuple[int, int]
"""The first and the last millisecond of some timestamps."""


def _range(moments: Moments) -> _Range | None:
    millis = moments.seconds * 1_000 + moments.nanos // NANOS_PER_MILLI
    return (int(millis.min()), int(millis.max())) if len(millis) else None


def _joined(one: _Range, other: _Range | None) -> _Range:
    return one if other is None else (min(one[0], other[0]), max(one[1], other[1]))


def _with_ranges(message: bytes, number: int, ranges: Mapping[int, _Range]) -> bytes:
    """A message with statistics of all columns under a number, with these ranges of some."""
    parts = []
    for column, statistics in enumerate(messages(message, number)):
        if column in ranges:
            low, high = ranges[column]
            # Without nanoseconds, which would be bounds within the first and last millisecond.
            known = message_of([(MIN_UTC, zigzag(low)), (MAX_UTC, zigzag(high))])
            rest = [part for part in fields(statistics) if part[0] != TIMESTAMPS]
            parts.append((number, message_of([*rest, (TIMESTAMPS, known)])))
        else:
            parts.append((number, statistics))
    return message_of(parts)


@dataclass(frozen=True, slots=True)
class Tail:
    """What follows the stripes."""

    codec: str
    block_bytes: int
    footer: list[tuple[int, Any]]
    postscript: dict[int, Any]
    stripes: list[dict[int, Any]]
    statistics: list[bytes]

    @classmethod
    def read(cls, source: BinaryIO, file: po.ORCFile) -> Tail:
        end = file.file_length - 1 - file.file_postscript_length
        source.seek(end)
        postscript = dict(fields(source.read(file.file_postscript_length)))
        source.seek(end - file.file_footer_length - postscript.get(TAIL_METADATA_BYTES, 0))
        metadata = plain(source.read(postscript.get(TAIL_METADATA_BYTES, 0)), file.compression)
        footer = plain(source.read(file.file_footer_length), file.compression)
        return cls(
            codec=file.compression,
            block_bytes=postscript.get(TAIL_BLOCK_BYTES, _BLOCK_BYTES),
            footer=list(fields(footer)),
            postscript=postscript,
            stripes=[dict(fields(stripe)) for stripe in messages(footer, FOOTER_STRIPES)],
            statistics=list(messages(metadata, METADATA_STRIPES)),
        )

    def chunked(self, data: bytes) -> bytes:
        return chunked(data, self.codec, self.block_bytes)


def _tail(
    tail: Tail, stripe_bytes: int, stripes: list[bytes], statistics: list[bytes], ranges: Mapping[int, _Range]
) -> bytes:
    """Statistics of stripes, footer and postscript."""
    replaced = {FOOTER_STRIPE_BYTES, FOOTER_STRIPES, FOOTER_STATISTICS, FOOTER_INDEX_STRIDE}
    known = message_of(part for part in tail.footer if part[0] == FOOTER_STATISTICS)
    parts = [
        (FOOTER_STRIPE_BYTES, stripe_bytes),
        *((FOOTER_STRIPES, stripe) for stripe in stripes),
        *(part for part in tail.footer if part[0] not in replaced),
        *fields(_with_ranges(known, FOOTER_STATISTICS, ranges)),
        (FOOTER_INDEX_STRIDE, 0),
    ]
    footer = tail.chunked(message_of(parts))
    metadata = tail.chunked(message_of((METADATA_STRIPES, one) for one in statistics))
    sizes = {TAIL_FOOTER_BYTES: len(footer), TAIL_METADATA_BYTES: len(metadata)}
    postscript = message_of({**tail.postscript, **sizes}.items())
    return metadata + footer + postscript + bytes([len(postscript)])
