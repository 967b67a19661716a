"""
The HTTP interface of ClickHouse in front of the real engine, which PyPI's chdb-core holds: SQL, tables, merges, indexes, parameters,
formats and error numbers are ClickHouse's own.

Speaks what the server's documentation and its source (src/Server/HTTPHandler.cpp) say of the interface: X-ClickHouse-User and -Key,
settings and `query` in the URL, a statement with `param_…` as multipart/form-data, a body after an INSERT with Content-Encoding gzip,
X-ClickHouse-Exception-Code, and the status of each error.

Does not prove: the server's own HTTP parser, TLS and connection limits; users and privileges, of which it knows one; `readonly`, which
it checks by the first word of a statement; asynchronous and replicated inserts; that the server stops a query whose client has gone;
statements that run at the same time: here they take turns.

Arguments: a folder, a user and a password. Prints its port. GET /control/<mode>: `serve`, or `cut` to end connections within an answer.
"""

import gzip
import json
import re
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qsl, urlsplit

import chdb

FOLDER, USER, PASSWORD = sys.argv[1:4]
ENGINE = chdb.connect(FOLDER)
LOCK = threading.Lock()
MODE = {"now": "serve"}

NOT_SETTINGS = {"database", "query", "default_format", "wait_end_of_query", "readonly"}
STATUSES = {
    **dict.fromkeys([6, 25, 26, 27, 36, 38, 41, 44, 47, 53, 62, 72, 117, 321], 400),
    **dict.fromkeys([46, 47, 50, 56, 60, 73, 81, 115], 404),
    **dict.fromkeys([192, 193, 497, 516], 403),
    194: 401,
    159: 408,
    48: 501,
}


class Failure(Exception):
    def __init__(self, code, message):
        super().__init__(message)
        self.code = code


def run(statement, form="JSONEachRow", values=None):
    try:
        return ENGINE.query(statement, form, params=values or {}).bytes()
    except Exception as error:
        found = re.search(r"Code: (\d+)\.", str(error))
        raise Failure(int(found.group(1)) if found else 1000, str(error)) from error


def fields_of(body, content_type):
    """The fields of a form, as bytes: names and values may hold any character."""
    boundary = b"--" + re.search(r"boundary=([^;]+)", content_type).group(1).encode()
    fields = {}
    for part in body.split(boundary)[1:-1]:
        head, value = part[2:-2].split(b"\r\n\r\n", 1)
        fields[re.search(rb'name="([^"]*)"', head).group(1).decode()] = value.decode()
    return fields


def with_settings(statement, settings, readonly):
    word = statement.split(None, 1)[0].upper()
    if readonly != "0" and word not in ("SELECT", "WITH", "EXPLAIN", "SHOW", "EXISTS"):
        raise Failure(164, "Cannot execute query in readonly mode")
    # In a session of its own each request would have its settings. Here they are those of the statement.
    clause = ", ".join(f"{name} = '{value}'" for name, value in settings.items())
    if word == "SELECT" and clause:
        return f"{statement}\nSETTINGS {clause}"
    if word == "INSERT" and clause:
        return statement.replace(" FORMAT JSONEachRow", f" SETTINGS {clause} FORMAT JSONEachRow", 1)
    return statement


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    # Collects what it writes until the answer is whole.
    wbufsize = -1
    disable_nagle_algorithm = True

    def log_message(self, *_):
        pass

    def do_GET(self):
        MODE["now"] = self.path.rsplit("/", 1)[-1]
        self.answer(200, b"Ok.\n", {})

    def do_POST(self):
        body = self.rfile.read(int(self.headers.get("Content-Length", "0")))
        try:
            data = self.handle_query(body)
            self.answer(200, data, {"X-ClickHouse-Format": "JSON"})
        except Failure as failure:
            status = STATUSES.get(failure.code, 500)
            text = f"Code: {failure.code}. DB::Exception: {failure}\n".encode(errors="replace")
            self.answer(status, text, {"X-ClickHouse-Exception-Code": str(failure.code)})

    def handle_query(self, body):
        user, key = (self.headers.get(f"X-ClickHouse-{name}", "").encode("latin1").decode() for name in ("User", "Key"))
        if (user, key) != (USER, PASSWORD):
            raise Failure(516, f"{user}: Authentication failed: password is incorrect, or there is no user with such name.")
        parameters = dict(parse_qsl(urlsplit(self.path).query, keep_blank_values=True))
        content_type = self.headers.get("Content-Type", "")
        if self.headers.get("Content-Encoding") == "gzip":
            body = gzip.decompress(body)
        if content_type.startswith("multipart/form-data"):
            fields = fields_of(body, content_type)
            statement = fields["query"]
        else:
            fields = {}
            statement = "\n".join(filter(None, [parameters.get("query"), body.decode()]))
        values = {name[6:]: value for name, value in {**parameters, **fields}.items() if name.startswith("param_")}
        settings = {k: v for k, v in parameters.items() if k not in NOT_SETTINGS and not k.startswith("param_")}
        statement = with_settings(statement, settings, parameters.get("readonly", "0"))
        with LOCK:
            self.use(parameters.get("database", "default"))
            return run(statement, parameters.get("default_format", "TabSeparated"), values)

    def use(self, database):
        if not re.fullmatch(r"\w+", database) or not run(f"SELECT 1 FROM system.databases WHERE name = '{database}'"):
            raise Failure(81, f"Database {database} does not exist")
        run(f"USE {database}")

    def answer(self, status, data, headers):
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        if MODE["now"] == "cut":
            self.wfile.write(b"%x\r\n" % (len(data) + 1) + data[: len(data) // 2])
            self.close_connection = True
            return self.wfile.flush()
        if data:
            self.wfile.write(b"%x\r\n" % len(data) + data + b"\r\n")
        self.wfile.write(b"0\r\n\r\n")
        self.wfile.flush()


class Server(ThreadingHTTPServer):
    daemon_threads = True


server = Server(("127.0.0.1", 0), Handler)
print(json.dumps({"port": server.server_port}), flush=True)
server.serve_forever()
