"""A REST catalog server, written from Paimon's OpenAPI specification; state in memory, tables in a real directory.

`python -m tests.support.rest_server WAREHOUSE_DIR` prints its port and serves until its standard input ends. What a
test wants from it besides the specification:

- `POST /test/faults {"path": regex, "method": …, "fault": "lose_reply" | "lose_request" | status | lie, "times": n}`;
  a lie is `{"status": …, "text": …, "done": whether the request is also done}`;
- `POST /test/truth` ends all faults;
- `GET /test/requests`: method and path of all requests so far;
- options of the warehouse are given as JSON in the variable `REST_SERVER`: `token`, `page_size`, `defaults`,
  `overrides`, `lend` (credentials of tables) for `lent_ms`, `store` (an address in S3 or OSS for tables, reached
  with what is lent), `proxy` (of OSS).

As in the specification a commit succeeds if the UUID of its base is that of the latest snapshot; the server then
writes the snapshot file.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import sys
import threading
import time
import uuid
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, ClassVar
from urllib.parse import parse_qs, unquote, urlsplit

PREFIX = "lake"
Answer = tuple[int, Any]


class ApiError(Exception):
    def __init__(self, status: int, message: str, resource: str | None = None, name: str | None = None) -> None:
        super().__init__(message)
        self.answer = {"message": message, "resourceType": resource, "resourceName": name, "code": status}


class Lake:
    """What the server knows; one request at a time."""

    def __init__(self, root: Path, settings: dict[str, Any]) -> None:
        self.root = root
        self.settings = settings
        self.databases: dict[str, dict[str, str]] = {}
        self.tables: dict[tuple[str, str], dict[str, Any]] = {}
        self.latest: dict[tuple[str, str, str], dict[str, Any]] = {}
        self.commits: list[dict[str, Any]] = []
        self.alters: list[dict[str, Any]] = []

    def config(self) -> dict[str, Any]:
        overrides = {"prefix": PREFIX, **self.settings.get("overrides", {})}
        return {"defaults": self.settings.get("defaults", {}), "overrides": overrides}

    # ── databases ───────────────────────────────────────────────────────────────────────────────

    def database(self, name: str) -> dict[str, str]:
        if name not in self.databases:
            raise ApiError(404, f"Database {name} does not exist", "DATABASE", name)
        return self.databases[name]

    def create_database(self, body: dict[str, Any]) -> None:
        if body["name"] in self.databases:
            raise ApiError(409, f"Database {body['name']} exists", "DATABASE", body["name"])
        self.databases[body["name"]] = dict(body.get("options") or {})

    def get_database(self, name: str) -> dict[str, Any]:
        options = self.database(name)
        return {
            "id": name,
            "name": name,
            "location": options.get("location", str(self.root / f"{name}.db")),
            "options": options,
            **self._audit(),
        }

    def drop_database(self, name: str) -> None:
        self.database(name)
        for database, table in [key for key in self.tables if key[0] == name]:
            self.drop_table(database, table)
        del self.databases[name]

    # ── tables ──────────────────────────────────────────────────────────────────────────────────

    def table(self, database: str, name: str) -> dict[str, Any]:
        found = self.tables.get((database, name.partition("$")[0]))
        if found is None:
            raise ApiError(404, f"Table {database}.{name} does not exist", "TABLE", name)
        return found

    def create_table(self, database: str, body: dict[str, Any]) -> None:
        self.database(database)
        name, schema = body["identifier"]["object"], body["schema"]
        if (database, name) in self.tables:
            raise ApiError(409, f"Table {name} exists", "TABLE", name)
        path = schema.get("options", {}).pop("path", None)
        table = {
            "id": str(uuid.uuid4()),
            "path": path or f"{self.settings.get('store', self.root)}/{database}.db/{name}-{uuid.uuid4()}",
            "isExternal": path is not None,
            "schema": schema,
        }
        ids = [int(found) for found in re.findall(r'"id": (\d+)', json.dumps(schema["fields"]))]
        file = {"version": 3, "id": 0, "highestFieldId": max(ids), "timeMillis": int(time.time() * 1000), **schema}
        self._write(table["path"], "schema/schema-0", {**file, "options": schema.get("options") or {}})
        self.tables[database, name] = table

    def get_table(self, database: str, name: str) -> dict[str, Any]:
        return {
            "database": database,
            "name": name,
            "schemaId": 0,
            **self.table(database, name),
            **self._audit(),
        }

    def alter_table(self, database: str, name: str, body: dict[str, Any]) -> None:
        table = self.table(database, name)
        made, number = json.loads(json.dumps(table["schema"])), table.get("schemaId", 0) + 1
        made["options"] = made.get("options") or {}
        ids = [int(found) for found in re.findall(r'"id": (\d+)', json.dumps(table["schema"]["fields"]))]
        highest = max([table.get("highest", -1), *ids])
        for change in body["changes"]:
            highest = change_schema(made, change, highest)
        branch = self._key(database, name)[2]
        folder = "" if branch == "main" else f"branch/branch-{branch}/"
        file = {"version": 3, "id": number, "highestFieldId": highest, "timeMillis": int(time.time() * 1000), **made}
        self._write(table["path"], f"{folder}schema/schema-{number}", file)
        table.update(schema=made, schemaId=number, highest=highest)
        self.alters.append(body)

    def drop_table(self, database: str, name: str) -> None:
        table = self.table(database, name)
        if not table["isExternal"]:
            shutil.rmtree(table["path"])
        del self.tables[database, name]
        for key in [key for key in self.latest if key[:2] == (database, name)]:
            del self.latest[key]

    def rename_table(self, body: dict[str, Any]) -> None:
        old, new = ((body[end]["database"], body[end]["object"]) for end in ("source", "destination"))
        self.table(*old)
        self.database(new[0])
        if new in self.tables:
            raise ApiError(409, f"Table {new[1]} exists", "TABLE", new[1])
        self.tables[new] = self.tables.pop(old)
        for key in [key for key in self.latest if key[:2] == old]:
            self.latest[*new, key[2]] = self.latest.pop(key)

    def token(self, database: str, name: str) -> dict[str, Any]:
        self.table(database, name)
        return {
            "token": self.settings.get("lend", {}),
            "expiresAtMillis": int(time.time() * 1000) + self.settings.get("lent_ms", 7_200_000),
        }

    # ── snapshots ───────────────────────────────────────────────────────────────────────────────

    def commit(self, database: str, name: str, body: dict[str, Any]) -> dict[str, Any]:
        table = self.table(database, name)
        if body.get("tableId") != table["id"]:
            raise ApiError(400, f"Table {name} is another table by now")
        key, snapshot = self._key(database, name), body["snapshot"]
        latest = self.latest.get(key)
        expected = (0, None) if latest is None else (latest["id"], latest.get("uuid"))
        if expected != (snapshot["id"] - 1, body.get("baseSnapshotUuid")):
            return {"success": False}
        self._write(table["path"], self._file(key[2], snapshot["id"]), snapshot)
        self.latest[key] = snapshot
        self.commits.append({"table": f"{database}.{name}", "statistics": body["statistics"]})
        return {"success": True}

    def snapshot(self, database: str, name: str, version: str | None = None) -> dict[str, Any]:
        table, key = self.table(database, name), self._key(database, name)
        latest = self.latest.get(key)
        if version is None:
            if latest is None:
                raise ApiError(404, "No snapshot yet", "SNAPSHOT", name)
            count = {"recordCount": latest["totalRecordCount"], "fileSizeInBytes": 1, "fileCount": 1}
            return {"snapshot": {"snapshot": latest, **count, "lastFileCreationTime": latest["timeMillis"]}}
        file = Path(table["path"], self._file(key[2], int(version)))
        if latest is not None and int(version) == latest["id"]:
            return {"snapshot": latest}
        if latest is None or int(version) > latest["id"] or not file.exists():
            raise ApiError(404, f"No snapshot {version}", "SNAPSHOT", version)
        return {"snapshot": json.loads(file.read_text())}

    def create_branch(self, database: str, name: str, body: dict[str, Any]) -> None:
        root = Path(self.table(database, name)["path"])
        shutil.copytree(root / "schema", root / "branch" / f"branch-{body['branch']}" / "schema")

    def rollback(self, database: str, name: str, body: dict[str, Any]) -> None:
        table, key, instant = self.table(database, name), self._key(database, name), body["instant"]
        if instant["type"] == "tag":
            file = Path(table["path"], "tag", f"tag-{instant['tagName']}")
            if not file.exists():
                raise ApiError(404, "No such tag", "TAG", instant["tagName"])
            target = json.loads(file.read_text())
        else:
            target = self.snapshot(database, name, str(instant["snapshotId"]))["snapshot"]
        latest = self.latest[key]
        if body.get("fromSnapshot") not in (None, latest["id"]):
            raise ApiError(500, f"Latest snapshot {latest['id']} is not {body['fromSnapshot']}")
        for number in range(target["id"] + 1, latest["id"] + 1):
            Path(table["path"], self._file(key[2], number)).unlink(missing_ok=True)
        self.latest[key] = target

    def _key(self, database: str, name: str) -> tuple[str, str, str]:
        table, _, branch = name.partition("$")
        return database, table, branch.removeprefix("branch_") or "main"

    def _file(self, branch: str, number: int) -> str:
        return f"{'' if branch == 'main' else f'branch/branch-{branch}/'}snapshot/snapshot-{number}"

    def _write(self, root: str, name: str, value: Any) -> None:
        if "://" in root:
            self._put(f"{root}/{name}", json.dumps(value).encode())
            return
        file = Path(root, name)
        file.parent.mkdir(parents=True, exist_ok=True)
        with file.open("x", encoding="utf-8") as out:
            json.dump(value, out)

    def _put(self, path: str, data: bytes) -> None:
        """Writes an object to the store to which the lent credentials lead."""
        lent = self.settings["lend"]
        if path.startswith("oss://"):
            import opendal

            os.environ["http_proxy"] = self.settings["proxy"]
            bucket, _, key = path.removeprefix("oss://").partition("/")
            names = {"endpoint": "endpoint", "accessKeyId": "access_key_id", "accessKeySecret": "access_key_secret"}
            options = {name: lent[f"fs.oss.{java}"] for java, name in names.items()}
            opendal.Operator("oss", bucket=bucket, **options).write(key, data)
            return
        import s3fs

        s3 = s3fs.S3FileSystem(
            key=lent["s3.access-key"],
            secret=lent["s3.secret-key"],
            endpoint_url=lent["s3.endpoint"],
            config_kwargs={"s3": {"addressing_style": "path"}},
        )
        s3.pipe_file(path, data)

    def _audit(self) -> dict[str, Any]:
        return {"owner": "tests", "createdAt": 1, "createdBy": "tests", "updatedAt": 2, "updatedBy": "tests"}


# ── schema changes ──────────────────────────────────────────────────────────────────────────────


def change_schema(schema: dict[str, Any], change: dict[str, Any], highest: int) -> int:
    """Makes one change, and gives the highest field id after it."""
    match change["action"]:
        case "setOption":
            schema["options"][change["key"]] = change["value"]
        case "removeOption":
            schema["options"].pop(change["key"], None)
        case "updateComment":
            schema["comment"] = change["comment"]
        case "updateColumnPosition":
            moved = change["move"]
            column = next(one for one in schema["fields"] if one["name"] == moved["fieldName"])
            schema["fields"].remove(column)
            put(schema["fields"], column, moved)
        case "addColumn":
            highest += 1
            column = {"id": highest, "name": change["fieldNames"][-1], "type": change["dataType"]}
            if change.get("comment") is not None:
                column["description"] = change["comment"]
            put(fields_at(schema, change["fieldNames"]), column, change.get("move"))
        case action:
            change_column(schema, action, change)
    return highest


def change_column(schema: dict[str, Any], action: str, change: dict[str, Any]) -> None:
    fields, name = fields_at(schema, change["fieldNames"]), change["fieldNames"][-1]
    column = next((one for one in fields if one["name"] == name), None)
    if column is None:
        raise ApiError(404, f"Column {name} does not exist", "COLUMN", name)
    match action:
        case "dropColumn":
            fields.remove(column)
        case "renameColumn":
            column["name"] = change["newName"]
            schema["primaryKeys"] = [change["newName"] if key == name else key for key in schema["primaryKeys"]]
        case "updateColumnType":
            column["type"] = change["newDataType"]
        case "updateColumnNullability":
            plain = column["type"].removesuffix(" NOT NULL")
            column["type"] = plain if change["newNullability"] else f"{plain} NOT NULL"
        case "updateColumnComment":
            column["description"] = change["newComment"]
        case "updateColumnDefaultValue":
            column["defaultValue"] = change["newDefaultValue"]
        case _:
            raise ApiError(400, f"Unknown change {action}")


def fields_at(schema: dict[str, Any], path: list[str]) -> list[dict[str, Any]]:
    """The fields among which the last name of the path is."""
    fields = schema["fields"]
    for name in path[:-1]:
        fields = next(one for one in fields if one["name"] == name)["type"]["fields"]
    return fields


def put(fields: list[dict[str, Any]], column: dict[str, Any], move: dict[str, Any] | None) -> None:
    """Puts a column at the requested position; last without one."""
    names = [one["name"] for one in fields]
    match (move or {}).get("type", "LAST"):
        case "FIRST":
            position = 0
        case "LAST":
            position = len(fields)
        case kind:
            position = names.index(move["referenceFieldName"]) + (kind == "AFTER")
    fields.insert(position, column)


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True  # or else each answer waits 40 ms between its head and its body
    lake: Lake
    lock = threading.Lock()
    faults: ClassVar[list[dict[str, Any]]] = []
    requests: ClassVar[list[str]] = []

    def do_GET(self) -> None:
        self._serve()

    do_POST = do_DELETE = do_GET

    def _serve(self) -> None:
        url = urlsplit(self.path)
        parameters = {key: values[-1] for key, values in parse_qs(url.query).items()}
        raw = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        body = json.loads(raw) if raw else {}
        with self.lock:
            if url.path.startswith("/test/"):
                self._answer(200, self._control(url.path, body))
                return
            self.requests.append(f"{self.command} {unquote(url.path)}")
            fault = self._fault(url.path)
            if fault == "lose_request":
                self.close_connection = True
                return
            if isinstance(fault, int):
                self._answer(fault, {"message": "as the test wants it", "code": fault})
                return
            if isinstance(fault, dict) and not fault["done"]:
                self._send(fault["status"], fault["text"].encode())
                return
            try:
                status, answer = 200, self._route(unquote(url.path), parameters, body)
            except ApiError as error:
                status, answer = error.answer["code"], error.answer
            if fault == "lose_reply":
                self.close_connection = True
                return
            if isinstance(fault, dict):
                self._send(fault["status"], fault["text"].encode())
                return
            self._answer(status, answer)

    def _route(self, path: str, parameters: dict[str, str], body: dict[str, Any]) -> Any:
        token = self.lake.settings.get("token")
        if token is not None and self.headers.get("Authorization") != f"Bearer {token}":
            raise ApiError(401, "Who are you?")
        if path == "/v1/config":
            if unquote(parameters.get("warehouse", "")) != "lake":
                raise ApiError(404, "No such warehouse")
            return self.lake.config()
        parts = path.removeprefix(f"/v1/{PREFIX}/").split("/")
        match self.command, parts:
            case "GET", ["databases"]:
                return self._page("databases", sorted(self.lake.databases), parameters)
            case "POST", ["databases"]:
                return self.lake.create_database(body)
            case "GET", ["databases", name]:
                return self.lake.get_database(name)
            case "DELETE", ["databases", name]:
                return self.lake.drop_database(name)
            case "GET", ["databases", database, "tables"]:
                self.lake.database(database)
                return self._page("tables", sorted(t for d, t in self.lake.tables if d == database), parameters)
            case "POST", ["databases", database, "tables"]:
                return self.lake.create_table(database, body)
            case "POST", ["tables", "rename"]:
                return self.lake.rename_table(body)
            case "GET", ["databases", database, "tables", name]:
                return self.lake.get_table(database, name)
            case "POST", ["databases", database, "tables", name]:
                return self.lake.alter_table(database, name, body)
            case "DELETE", ["databases", database, "tables", name]:
                return self.lake.drop_table(database, name)
            case "GET", ["databases", database, "tables", name, "token"]:
                return self.lake.token(database, name)
            case "GET", ["databases", database, "tables", name, "snapshot"]:
                return self.lake.snapshot(database, name)
            case "GET", ["databases", database, "tables", name, "snapshots", version]:
                return self.lake.snapshot(database, name, version)
            case "POST", ["databases", database, "tables", name, "commit"]:
                return self.lake.commit(database, name, body)
            case "POST", ["databases", database, "tables", name, "branches"]:
                return self.lake.create_branch(database, name, body)
            case "POST", ["databases", database, "tables", name, "rollback"]:
                return self.lake.rollback(database, name, body)
            case "POST", ["databases", _, "tables", _, "partitions"]:
                added = {"added": body["partitionSpecs"], "may be there": body["ignoreIfExists"]}
                return self.lake.commits.append(added)
            case "POST", ["databases", _, "tables", _, "partitions", "mark"]:
                return self.lake.commits.append({"marked": body["specs"]})
            case _:
                raise ApiError(501, f"{self.command} {path} is not implemented")

    def _page(self, key: str, names: list[str], parameters: dict[str, str]) -> dict[str, Any]:
        size = int(self.lake.settings.get("page_size", 100))
        rest = [name for name in names if name > parameters.get("pageToken", "")]
        token = rest[size - 1] if len(rest) > size else None
        return {key: rest[:size], "nextPageToken": token}

    def _control(self, path: str, body: dict[str, Any]) -> Any:
        if path == "/test/faults":
            self.faults.append(body)
        if path == "/test/truth":
            self.faults.clear()
        if path == "/test/requests":
            return {"requests": list(self.requests)}
        if path == "/test/commits":
            return {"commits": list(self.lake.commits), "alters": list(self.lake.alters)}
        return {}

    def _fault(self, path: str) -> Any:
        for fault in self.faults:
            if fault["times"] and fault["method"] == self.command and re.search(fault["path"], unquote(path)):
                fault["times"] -= 1
                return fault["fault"]
        return None

    def _answer(self, status: int, answer: Any) -> None:
        self._send(status, b"" if answer is None else json.dumps(answer).encode())

    def _send(self, status: int, data: bytes) -> None:
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *_args: Any) -> None:
        """Nothing."""


def main() -> None:
    Handler.lake = Lake(Path(sys.argv[1]), json.loads(os.environ.get("REST_SERVER", "{}")))
    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, daemon=True).start()
    print(server.server_port, flush=True)
    sys.stdin.read()


if __name__ == "__main__":
    main()
