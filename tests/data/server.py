"""A file server on the loopback interface that can be told to misbehave."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

__all__ = ["Server", "serve"]


class Server:
    """What is served, how, and what was asked for.

    Attributes
    ----------
    files : content by path; a folder is served as it is.
    ranges : whether a part of a file can be asked for.
    cuts : bytes after which the next connections break off, one for each.
    status : the status of every response, if it is not the right one.
    delay : seconds before a body begins.
    asked : path and range of each request, in order.
    """

    def __init__(self, files: Mapping[str, bytes] | Path) -> None:
        self.files = files
        self.ranges = True
        self.cuts: list[int] = []
        self.status: int | None = None
        self.delay = 0.0
        self.asked: list[tuple[str, str | None]] = []
        self.address = ""

    def content(self, path: str) -> bytes | None:
        if isinstance(self.files, Path):
            file = self.files / path
            return file.read_bytes() if file.is_file() else None
        return self.files.get(path)


@contextmanager
def serve(files: Mapping[str, bytes] | Path) -> Iterator[Server]:
    """Serve files until the block ends."""
    state = Server(files)

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            path, wanted = self.path.lstrip("/"), self.headers.get("Range")
            state.asked.append((path, wanted))
            content = state.content(path)
            if state.status is not None or content is None:
                self.send_error(state.status or 404)
                return
            start = 0
            if wanted is not None and state.ranges:
                start = int(wanted.removeprefix("bytes=").removesuffix("-"))
                if start >= len(content):
                    self.send_error(416)
                    return
            self.send_response(206 if start else 200)
            if start:
                self.send_header(
                    "Content-Range", f"bytes {start}-{len(content) - 1}/{len(content)}"
                )
            self.send_header("Content-Length", str(len(content) - start))
            self.end_headers()
            time.sleep(state.delay)
            body = content[start:]
            self.wfile.write(body[: state.cuts.pop(0)] if state.cuts else body)
            self.close_connection = True

        def log_message(self, format: str, *args: object) -> None:
            pass

    listener = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    state.address = f"http://127.0.0.1:{listener.server_port}"
    thread = threading.Thread(target=listener.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    try:
        yield state
    finally:
        listener.shutdown()
        thread.join()
        listener.server_close()
