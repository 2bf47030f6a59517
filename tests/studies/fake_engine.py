"""A small OpenAI-compatible engine that answers at given speeds, with vLLM-named metrics. Threads, standard library only.

The first token comes after `ttft_ms`, the next ones every `tpot_ms`; both are what a performance model says for the
concurrency of the run, so a load generator that keeps that many requests in flight measures exactly them.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


@dataclass
class Timings:
    """What the engine shows; may be changed between runs."""

    ttft_ms: float
    tpot_ms: float
    model: str = "fake"
    running: int = 0
    finished: int = 0
    generated: int = 0
    lock: threading.Lock = field(default_factory=threading.Lock)


def _handler(timings: Timings) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_message(self, *_: Any) -> None:
            pass

        def do_GET(self) -> None:
            if self.path.startswith("/v1/models"):
                self._json({"object": "list", "data": [{"id": timings.model, "object": "model"}]})
            elif self.path.startswith("/metrics"):
                label = f'{{model_name="{timings.model}",engine="0"}}'
                lines = (
                    f"vllm:num_requests_running{label} {timings.running}",
                    f"vllm:num_requests_waiting{label} 0",
                    f"vllm:request_success_total{label} {timings.finished}",
                    f"vllm:generation_tokens_total{label} {timings.generated}",
                )
                self._send("\n".join(lines).encode() + b"\n", "text/plain")
            else:
                self._send(b"{}", "application/json")

        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            wanted = int(body.get("max_completion_tokens") or body.get("max_tokens") or 16)
            chat = self.path.endswith("/chat/completions")
            with timings.lock:
                timings.running += 1
            try:
                self._stream(body, wanted, chat=chat)
            finally:
                with timings.lock:
                    timings.running -= 1
                    timings.finished += 1
                    timings.generated += wanted

        def _stream(self, body: dict[str, Any], wanted: int, *, chat: bool) -> None:
            start = time.monotonic()
            self.send_response(200)
            self.send_header("Content-Type", "text/event-stream")
            self.send_header("Transfer-Encoding", "chunked")
            self.end_headers()
            for i in range(wanted):
                due = start + (timings.ttft_ms + i * timings.tpot_ms) / 1000.0
                time.sleep(max(due - time.monotonic(), 0.0))
                text = f"w{i % 50} "
                choice = {"index": 0, "delta": {"content": text}} if chat else {"index": 0, "text": text}
                self._chunk(
                    {"id": "x", "model": timings.model, "choices": [{**choice, "finish_reason": None}]}
                )
            # one token per byte, as the tests' tokenizer counts
            prompt = len(str(body.get("prompt") or body.get("messages") or "").encode())
            usage = {"prompt_tokens": prompt, "completion_tokens": wanted, "total_tokens": prompt + wanted}
            end = {"index": 0, "delta": {}} if chat else {"index": 0, "text": ""}
            self._chunk(
                {
                    "id": "x",
                    "model": timings.model,
                    "choices": [{**end, "finish_reason": "length"}],
                    "usage": usage,
                }
            )
            self._raw(b"data: [DONE]\n\n")
            self._raw(b"")

        def _chunk(self, document: dict[str, Any]) -> None:
            self._raw(b"data: " + json.dumps(document).encode() + b"\n\n")

        def _raw(self, data: bytes) -> None:
            self.wfile.write(f"{len(data):x}\r\n".encode() + data + b"\r\n")
            self.wfile.flush()

        def _json(self, document: dict[str, Any]) -> None:
            self._send(json.dumps(document).encode(), "application/json")

        def _send(self, data: bytes, kind: str) -> None:
            self.send_response(200)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

    return Handler


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 256

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Clients that hang up at the end of a run are no errors."""


@contextmanager
def serving(timings: Timings) -> Iterator[str]:
    """The engine on a free port of this machine; yields its URL."""
    server = _Server(("127.0.0.1", 0), _handler(timings))
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join(5)
