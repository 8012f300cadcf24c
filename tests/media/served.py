"""A web server that counts what it sends: files of a folder, in ranges, also under the paths of an object store."""

import contextlib
import re
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


class Served:
    """What a server sends from `folder`; ``/a/b.mp4`` and ``/bucket/b.mp4`` are the file ``b.mp4``."""

    def __init__(self, folder):
        self.folder, self.num_bytes, self.ranges = folder, 0, []
        self.fails = 0
        """How many of the next requests are refused as overload."""
        self.knows_ranges = True
        self._lock = threading.Lock()

    def sent(self, start, stop):
        with self._lock:
            self.num_bytes += stop - start
            self.ranges.append((start, stop))

    def forget(self):
        """Count from 0 again."""
        self.num_bytes, self.ranges = 0, []


@contextlib.contextmanager
def serve(folder):
    """Give (address, what is served) while the block runs."""
    served = Served(folder)

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_HEAD(self):
            self.answer(body=False)

        def do_GET(self):
            self.answer(body=True)

        def answer(self, *, body):
            path = served.folder / self.path.partition("?")[0].rpartition("/")[2]
            if served.fails and body:
                served.fails -= 1
                return self.told(503)
            if not path.is_file():
                return self.told(404)
            data = path.read_bytes()
            asked = re.fullmatch(r"bytes=(\d+)-(\d*)", self.headers.get("Range", ""))
            start, stop = 0, len(data)
            if asked and served.knows_ranges:
                start, stop = int(asked[1]), min(len(data), int(asked[2] or len(data) - 1) + 1)
            self.send_response(206 if asked and served.knows_ranges else 200)
            self.send_header("Content-Length", str(stop - start))
            self.send_header("Accept-Ranges", "bytes" if served.knows_ranges else "none")
            self.send_header("Last-Modified", "Mon, 01 Jan 2024 00:00:00 GMT")
            self.send_header("ETag", '"1"')
            if asked and served.knows_ranges:
                self.send_header("Content-Range", f"bytes {start}-{stop - 1}/{len(data)}")
            self.end_headers()
            if body:
                served.sent(start, stop)
                with contextlib.suppress(ConnectionError):
                    self.wfile.write(data[start:stop])
            return None

        def told(self, code):
            self.send_response(code)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *_):
            """Say nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}", served
    finally:
        server.shutdown()
        server.server_close()
