"""Reads and writes tables with other Python clients; run by the interpreter that has them, not by the tests' own.

Takes one JSON request per line on standard input and answers each with one JSON line; rows travel as Arrow files.
"""

from __future__ import annotations

import contextlib
import json
import sys
import traceback
from typing import Any

import pyarrow as pa
from pypaimon import CatalogFactory, Schema

Request = dict[str, Any]


def main() -> None:
    answers, sys.stdout = sys.stdout, sys.stderr
    for line in sys.stdin:
        request = json.loads(line)
        try:
            answer = {"ok": True, "result": OPS[request["op"]](request)}
        except Exception as error:  # noqa: BLE001 (the asking side raises it again)
            answer = {"ok": False, "error": f"{type(error).__name__}: {error}", "trace": traceback.format_exc()}
        answers.write(json.dumps(answer) + "\n")
        answers.flush()


def _catalog(request: Request) -> Any:
    return CatalogFactory.create(request["catalog"])


def ask(request: Request) -> Any:
    """Calls a method of the catalog."""
    return getattr(_catalog(request), request["method"])(*request["arguments"])


def alter(request: Request) -> None:
    """Changes given as `[name of the change, arguments]`; an argument `{"type": …}` is a type."""
    from pypaimon.schema.data_types import DataTypeParser
    from pypaimon.schema.schema_change import SchemaChange

    def meant(argument: Any) -> Any:
        return DataTypeParser.parse_data_type(argument["type"]) if isinstance(argument, dict) else argument

    changes = [getattr(SchemaChange, name)(*map(meant, given)) for name, given in request["changes"]]
    _catalog(request).alter_table(request["name"], changes)


def dlf_headers(request: Request) -> dict[str, str]:
    """What the client adds to a request of that method, path, parameters and body; without a region by `openapi`."""
    from datetime import datetime

    from pypaimon.api.auth.dlf_signer import DLFDefaultSigner, DLFOpenApiSigner
    from pypaimon.api.token_loader import DLFToken
    from pypaimon.api.typedef import RESTAuthParameter

    signer = DLFOpenApiSigner() if request["region"] is None else DLFDefaultSigner(request["region"])
    host = request.get("host", "host")
    token = DLFToken(*request["keys"])
    headers = signer.sign_headers(request["body"], datetime.fromisoformat(request["now"]), token.security_token, host)
    sent = RESTAuthParameter(
        path=request["resource"], parameters=request["parameters"], method=request["method"], data=request["body"]
    )
    return {**headers, "Authorization": signer.authorization(sent, token, host, headers)}


def create(request: Request) -> None:
    catalog = _catalog(request)
    catalog.create_database(request["name"].split(".")[0], True)
    schema = Schema.from_pyarrow_schema(
        pa.ipc.open_file(request["schema"]).schema,
        partition_keys=request["partition_keys"],
        primary_keys=request["primary_keys"],
        options=request["options"],
    )
    catalog.create_table(request["name"], schema, False)


def write(request: Request) -> None:
    """One commit per Arrow file."""
    table = _catalog(request).get_table(request["name"])
    for path in request["data"]:
        builder = table.new_batch_write_builder()
        if request["overwrite"] is not None:
            builder = builder.overwrite(request["overwrite"])
        writer, commit = builder.new_write(), builder.new_commit()
        writer.write_arrow(pa.ipc.open_file(path).read_all())
        commit.commit(writer.prepare_commit())
        writer.close()
        commit.close()


def write_at_once(request: Request) -> None:
    """One commit per Arrow file, each in a separate thread; all look for the first snapshot before one makes it."""
    from concurrent.futures import ThreadPoolExecutor
    from threading import Barrier, BrokenBarrierError

    together = Barrier(len(request["data"]), timeout=20)

    def append(path: str) -> None:
        table = _catalog(request).get_table(request["name"])
        look = table.file_io._get_file_info

        def look_together(at: str) -> Any:
            found = look(at)
            if at.endswith("/snapshot-1"):
                # Broken once a thread has no other one to wait for, which is after the commits.
                with contextlib.suppress(BrokenBarrierError):
                    together.wait()
            return found

        table.file_io._get_file_info = look_together
        builder = table.new_batch_write_builder()
        writer, commit = builder.new_write(), builder.new_commit()
        writer.write_arrow(pa.ipc.open_file(path).read_all())
        commit.commit(writer.prepare_commit())

    with ThreadPoolExecutor(len(request["data"])) as threads:
        list(threads.map(append, request["data"]))


def write_rust(request: Request) -> None:
    """One commit per Arrow file."""
    from pypaimon_rust.datafusion import PaimonCatalog

    for path in request["data"]:
        builder = PaimonCatalog(request["catalog"]).get_table(request["name"]).new_batch_write_builder()
        writer, commit = builder.new_write(), builder.new_commit()
        for batch in pa.ipc.open_file(path).read_all().to_batches():
            writer.write_arrow(batch)
        commit.commit(writer.prepare_commit())
        writer.close()
        commit.close()


def read(request: Request) -> None:
    table = _catalog(request).get_table(request["name"])
    if request["options"]:
        table = table.copy(request["options"])
    builder = table.new_read_builder()
    if request["columns"]:
        builder = builder.with_projection(request["columns"])
    if request["equal"]:
        predicates = builder.new_predicate_builder()
        parts = [predicates.equal(name, value) for name, value in request["equal"].items()]
        builder = builder.with_filter(predicates.and_predicates(parts))
    splits = builder.new_scan().plan().splits()
    _save(request["out"], builder.new_read().to_arrow(splits))


def read_rust(request: Request) -> None:
    from pypaimon_rust.datafusion import PaimonCatalog

    table = PaimonCatalog(request["catalog"]).get_table(request["name"])
    builder = table.new_read_builder(request["options"])
    names = request["columns"] or [field.name() for field in table.schema().fields()]
    for name, value in request["equal"].items():
        builder = builder.with_filter({"method": "equal", "field": name, "literals": [value]})
    batches = builder.with_projection(names).new_read().read(builder.new_scan().plan().splits())
    # Without rows there is no batch with the types.
    _save(
        request["out"], pa.Table.from_batches(batches) if batches else pa.table({name: pa.nulls(0) for name in names})
    )


def _save(path: str, rows: pa.Table) -> None:
    with pa.OSFile(path, "wb") as sink, pa.ipc.new_file(sink, rows.schema) as writer:
        writer.write_table(rows)


OPS = {
    "ask": ask,
    "alter": alter,
    "dlf_headers": dlf_headers,
    "create": create,
    "write": write,
    "write_at_once": write_at_once,
    "read": read,
    "read_rust": read_rust,
    "write_rust": write_rust,
}

if __name__ == "__main__":
    main()
