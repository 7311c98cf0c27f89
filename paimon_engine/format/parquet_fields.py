"""Numbers of Parquet's structures: of fields, and of the values of enumerations, by their names in `parquet.thrift`.

Only the used ones. The names are those of the definition, in capitals.

Source: `parquet.thrift` of the Parquet format.
"""

from __future__ import annotations


class FileMetaData:
    """A footer."""

    VERSION, SCHEMA, NUM_ROWS, ROW_GROUPS, KEY_VALUE_METADATA, CREATED_BY, COLUMN_ORDERS = range(1, 8)


class SchemaElement:
    """A column, or a group of some."""

    TYPE, TYPE_LENGTH, REPETITION_TYPE, NAME, NUM_CHILDREN, CONVERTED_TYPE = range(1, 7)
    FIELD_ID, LOGICAL_TYPE = 9, 10


class LogicalType:
    """A union: the field that is set says which type it is."""

    TIMESTAMP = 8


class TimestampType:
    """A timestamp."""

    IS_ADJUSTED_TO_UTC, UNIT = 1, 2


class TimeUnit:
    """A union of units."""

    MILLIS, MICROS = 1, 2


class RowGroup:
    """A row group."""

    COLUMNS, TOTAL_BYTE_SIZE, NUM_ROWS = 1, 2, 3
    FILE_OFFSET, TOTAL_COMPRESSED_SIZE = 5, 6


class ColumnChunk:
    """A column of a row group."""

    FILE_OFFSET, META_DATA = 2, 3
    OFFSET_INDEX_OFFSET, OFFSET_INDEX_LENGTH, COLUMN_INDEX_OFFSET, COLUMN_INDEX_LENGTH = range(4, 8)
    CRYPTO_METADATA = 8


class ColumnMetaData:
    """What a row group says of a column."""

    TYPE, ENCODINGS, PATH_IN_SCHEMA, CODEC, NUM_VALUES = range(1, 6)
    TOTAL_UNCOMPRESSED_SIZE, TOTAL_COMPRESSED_SIZE = 6, 7
    DATA_PAGE_OFFSET, DICTIONARY_PAGE_OFFSET = 9, 11
    STATISTICS, ENCODING_STATS, SIZE_STATISTICS = 12, 13, 16


class ChunkStatistics:
    """`Statistics` of a column chunk or a page; `MAX` and `MIN` are those of old writers."""

    MAX, MIN, NULL_COUNT, DISTINCT_COUNT, MAX_VALUE, MIN_VALUE = range(1, 7)
    IS_MAX_VALUE_EXACT, IS_MIN_VALUE_EXACT = 7, 8


class SizeStatistics:
    """Sizes of the values of a column chunk, and how many have each level."""

    UNENCODED_BYTE_ARRAY_DATA_BYTES, REPETITION_LEVEL_HISTOGRAM, DEFINITION_LEVEL_HISTOGRAM = range(1, 4)


class PageEncodingStats:
    """How many pages there are of a type and an encoding."""

    PAGE_TYPE, ENCODING = 1, 2


class PageHeader:
    """The header of a page."""

    TYPE, UNCOMPRESSED_PAGE_SIZE, COMPRESSED_PAGE_SIZE, CRC, DATA_PAGE_HEADER = range(1, 6)
    DICTIONARY_PAGE_HEADER, DATA_PAGE_HEADER_V2 = 7, 8


class DataPageHeader:
    """What the header of a data page adds."""

    NUM_VALUES, ENCODING = 1, 2
    STATISTICS = 5


class DataPageHeaderV2:
    """What the header of a data page of the second version adds."""

    NUM_VALUES, ENCODING = 1, 4
    STATISTICS = 8


class OffsetIndex:
    """Where the pages of a column chunk are."""

    PAGE_LOCATIONS = 1


class PageLocation:
    """Where a page is, with its header."""

    OFFSET, COMPRESSED_PAGE_SIZE, FIRST_ROW_INDEX = 1, 2, 3


class ColumnIndex:
    """Bounds of the pages of a column chunk."""

    NULL_PAGES, MIN_VALUES, MAX_VALUES = 1, 2, 3
    NULL_COUNTS = 5


class PageType:
    """An enumeration."""

    DATA_PAGE, DICTIONARY_PAGE, DATA_PAGE_V2 = 0, 2, 3


class PageEncoding:
    """`Encoding`, an enumeration."""

    PLAIN, PLAIN_DICTIONARY, RLE, BIT_PACKED, DELTA_BINARY_PACKED, DELTA_LENGTH_BYTE_ARRAY = 0, 2, 3, 4, 5, 6
    DELTA_BYTE_ARRAY, RLE_DICTIONARY, BYTE_STREAM_SPLIT = 7, 8, 9


class PhysicalType:
    """`Type`, an enumeration."""

    BOOLEAN, INT32, INT64, INT96, FLOAT, DOUBLE, BYTE_ARRAY, FIXED_LEN_BYTE_ARRAY = range(8)


class CompressionCodec:
    """An enumeration. Arrow does not say which of the two kinds of LZ4 a column has."""

    UNCOMPRESSED, SNAPPY, GZIP, BROTLI, ZSTD = 0, 1, 2, 4, 6


class KeyValue:
    """A name and a text in a footer."""

    KEY, VALUE = 1, 2


class ConvertedType:
    """An enumeration."""

    TIMESTAMP_MILLIS, TIMESTAMP_MICROS = 9, 10
