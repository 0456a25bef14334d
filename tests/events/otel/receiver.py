"""An OTLP receiver on loopback, which decodes what it gets."""

from __future__ import annotations

import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, NamedTuple

from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

STATUS = ("unset", "ok", "error")


class Got(NamedTuple):
    """A span as it arrived."""

    name: str
    trace: str
    id: str
    parent: str
    status: str
    message: str
    start: int
    end: int
    kind: int
    attributes: dict[str, Any]
    events: list[str]
    resource: dict[str, Any]

    @property
    def run(self) -> str:
        return str(self.attributes["placet.run.id"])


class Receiver:
    """A receiver that runs until it is closed."""

    def __init__(self) -> None:
        self.requests: list[tuple[str, dict[str, str], bytes]] = []
        self.answer = 200
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["content-length"]))
                outer.requests.append((self.path, dict(self.headers), body))
                self.send_response(outer.answer)
                self.end_headers()

            def log_message(self, *_: object) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()

    def spans(self, run: str | None = None) -> list[Got]:
        """The spans that arrived, of one run or of all."""
        found: list[Got] = []
        for path, _, body in self.requests:
            if path == "/v1/traces":
                for of_resource in ExportTraceServiceRequest.FromString(body).resource_spans:
                    resource = _values(of_resource.resource.attributes)
                    for scope in of_resource.scope_spans:
                        found += [_got(span, resource) for span in scope.spans]
        return [span for span in found if run is None or span.run == run]

    def metrics(self) -> dict[str, list[tuple[float, dict[str, Any]]]]:
        """Sum or value of each point of each metric, with its attributes."""
        found: dict[str, list[tuple[float, dict[str, Any]]]] = {}
        for path, _, body in self.requests:
            if path == "/v1/metrics":
                for of_resource in ExportMetricsServiceRequest.FromString(body).resource_metrics:
                    for scope in of_resource.scope_metrics:
                        for metric in scope.metrics:
                            kind = metric.WhichOneof("data")
                            for point in getattr(metric, kind).data_points:
                                value = point.sum if kind == "histogram" else point.as_double or point.as_int
                                found.setdefault(metric.name, []).append((value, _values(point.attributes)))
        return found


def _got(span: Any, resource: dict[str, Any]) -> Got:
    return Got(
        span.name,
        span.trace_id.hex(),
        span.span_id.hex(),
        span.parent_span_id.hex(),
        STATUS[span.status.code],
        span.status.message,
        span.start_time_unix_nano,
        span.end_time_unix_nano,
        span.kind,
        _values(span.attributes),
        [event.name for event in span.events],
        resource,
    )


def _values(attributes: Any) -> dict[str, Any]:
    return {each.key: _value(each.value) for each in attributes}


def _value(value: Any) -> Any:
    kind = value.WhichOneof("value")
    found = getattr(value, kind)
    return [_value(each) for each in found.values] if kind == "array_value" else found
