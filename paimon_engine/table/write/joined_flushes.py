"""Several flushes of a bucket made one sorted run, for tables in which files of one commit have no order.

A key that came in two flushes is in two files, and only their sequence numbers say which row is newer. Where the
commit replaces these by the number of its snapshot (`meta.snapshot_order`), the files are merged before.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from paimon_engine.lsm.levels import key_order
from paimon_engine.lsm.sections import sections
from paimon_engine.meta.manifest import DataFile
from paimon_engine.meta.snapshot_order import OPTION
from paimon_engine.table.files.data_file import bucket_location
from paimon_engine.table.files.rolling_writer import RollingWriter
from paimon_engine.table.read.reader import merge_section
from paimon_engine.table.state.handle import TableHandle


def join_flushes(
    table: TableHandle, partition: bytes, bucket: int, files: Sequence[DataFile], writer: RollingWriter
) -> list[DataFile]:
    """The files as one run: those that overlap others are merged by the writer, and deleted then.

    Raises: StorageError; what the writer has made is left to the caller.
    """
    by_number = replace(table, schema=table.schema.with_options({OPTION: "false"}))
    location = bucket_location(table, partition, bucket)
    kept: list[DataFile] = []
    merged: list[DataFile] = []
    for section in sections(files, key_order(table.schema.key_type), table.options.sort_spill_threshold):
        members = [file for run in section for file in run]
        if len(section) == 1:
            kept += members
            continue
        for rows in merge_section(by_number, location, section, table.schema.row_type.names):
            writer.write(rows)
        merged += members
    made = writer.finish()
    table.env.storage.delete(
        [f"{location.directory}/{name}" for file in merged for name in (file.name, *file.extra_files)]
    )
    return [*kept, *made]
