"""A receiver of webhooks in a process of its own: it verifies by what the docs show, and can misbehave.

`python receiver.py DOCS SECRET` prints its port, then a line of JSON for each request.
"""

import json
import re
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path


class Receiver(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        is_first = self.path not in seen
        seen.add(self.path)
        told = {
            "path": self.path,
            "id": self.headers["webhook-id"],
            "signatures": len(self.headers["webhook-signature"].split()),
            "verified": verified(secret, self.headers, body),
            "type": json.loads(body).get("type"),
        }
        print(json.dumps(told), flush=True)
        if self.path.startswith("/hang") and (is_first or self.path == "/hang"):
            threading.Event().wait()
        status = {"/fail": 500, "/gone": 410, "/redirect": 302}.get(self.path, 200)
        self.send_response(status)
        if status == 302:
            self.send_header("Location", "/elsewhere")
        reply = b"x" * (50_000_000 if self.path == "/long" else 2)
        self.send_header("Content-Length", str(len(reply)))
        self.end_headers()
        self.wfile.write(reply)

    do_GET = do_POST

    def log_message(self, *_: object) -> None:
        pass


seen: set[str] = set()
code = re.search(r"```python\n(.*?)```", Path(sys.argv[1]).read_text(), re.DOTALL)
assert code is not None
shown: dict = {}
exec(code.group(1), shown)
verified = shown["verified"]
secret = sys.argv[2]
server = ThreadingHTTPServer(("127.0.0.1", 0), Receiver)
server.daemon_threads = True
print(server.server_port, flush=True)
server.serve_forever()
