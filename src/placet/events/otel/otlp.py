"""OTLP over HTTP, by the exporters of the OpenTelemetry SDK (extra `otel`).

Imported by the thread that sends, and by nothing else. The standard variables `OTEL_*` hold where the
settings say nothing: the exporters and the resource read them.

Keep true: what the exporters have to say about a failure becomes an error, and never text on the terminal.
"""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Iterator, Sequence
from typing import Any

from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.metrics import CallbackOptions, Observation
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader, MetricExportResult
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import Event, ReadableSpan
from opentelemetry.sdk.trace.export import SpanExportResult
from opentelemetry.sdk.util.instrumentation import InstrumentationScope
from opentelemetry.trace import SpanContext, SpanKind, TraceFlags
from opentelemetry.trace.status import Status, StatusCode

from placet import __version__
from placet.errors import StorageError
from placet.events.otel.sink import Gauge, OtelSettings
from placet.events.otel.spans import OtelSpan

_SCOPE = InstrumentationScope("placet", __version__)
_STATUS = {"ok": StatusCode.OK, "error": StatusCode.ERROR, "unset": StatusCode.UNSET}
_MEASURED = ("gen_ai.operation.name", "gen_ai.provider.name", "gen_ai.request.model", "gen_ai.response.model")
_TOKENS = (1, 4, 16, 64, 256, 1024, 4096, 16384, 65536, 262144, 1048576, 4194304, 16777216, 67108864)
_SECONDS = (0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.64, 1.28, 2.56, 5.12, 10.24, 20.48, 40.96, 81.92)
"""Bucket boundaries that the GenAI conventions ask for."""
_TIMEOUT_S = 5.0


class _LastWords(logging.Handler):
    """Keeps what the exporters said last, and the terminal free of it."""

    def __init__(self) -> None:
        super().__init__()
        self.words = ""
        for name in ("opentelemetry.exporter", "opentelemetry.sdk", "urllib3"):
            logger = logging.getLogger(name)
            logger.addHandler(self)
            logger.propagate = False

    def emit(self, record: logging.LogRecord) -> None:
        if record.levelno >= logging.ERROR or "Transient" in record.msg:
            self.words = record.getMessage()


class OtlpExporter:
    """Sends spans and metrics to a receiver."""

    def __init__(self, settings: OtelSettings, gauges: Sequence[Gauge]) -> None:
        self._heard = _LastWords()
        self._resource = Resource.create(
            {} if _names_service() else {"service.name": "placet", "service.version": __version__}
        )
        headers = dict(settings.headers) or None
        timeout = None if _sets_timeout() else _TIMEOUT_S
        self._sends_spans = os.environ.get("OTEL_TRACES_EXPORTER", "otlp") != "none"
        self._spans = OTLPSpanExporter(endpoint=_signal(settings, "traces"), headers=headers, timeout=timeout)
        self._metrics: _Metrics | None = None
        if settings.metrics and os.environ.get("OTEL_METRICS_EXPORTER", "otlp") != "none":
            out = OTLPMetricExporter(endpoint=_signal(settings, "metrics"), headers=headers, timeout=timeout)
            self._metrics = _Metrics(out, self._resource, gauges)

    @property
    def is_failing(self) -> bool:
        """Whether what is being sent is tried again."""
        return bool(self._heard.words)

    def send(self, spans: Sequence[OtelSpan], dropped: int) -> None:
        """Send finished spans, and metrics when they are due."""
        self._heard.words = ""
        if self._metrics is not None:
            self._metrics.dropped = dropped
            for span in spans:
                self._metrics.measure(span)
        ready = [self._readable(span) for span in spans if span.sampled]
        accepted = True
        if ready and self._sends_spans:
            accepted = self._spans.export(ready) is SpanExportResult.SUCCESS
        if accepted and self._metrics is not None and self._metrics.are_due():
            accepted = self._metrics.send()
        if not accepted:
            raise self._failure()

    def close(self) -> None:
        """Send metrics for the last time."""
        accepted = self._metrics is None or self._metrics.send()
        self.interrupt()
        if not accepted:
            raise self._failure()

    def interrupt(self) -> None:
        """Give up what is being sent."""
        self._spans.shutdown()  # type: ignore[no-untyped-call]
        if self._metrics is not None:
            self._metrics.exporter.shutdown()

    def _failure(self) -> StorageError:
        words = self._heard.words or "the receiver did not accept what was sent"
        return StorageError("OpenTelemetry", words.rstrip("."), "Check [otel] in your settings.toml.")

    def _readable(self, span: OtelSpan) -> ReadableSpan:
        flags = TraceFlags(TraceFlags.SAMPLED)
        trace_id = int(span.trace_id, 16)
        parent = None
        if span.parent_id is not None:
            parent = SpanContext(trace_id, int(span.parent_id, 16), span.remote, flags)
        return ReadableSpan(
            name=span.name,
            context=SpanContext(trace_id, int(span.span_id, 16), False, flags),
            parent=parent,
            resource=self._resource,
            attributes=span.attributes,
            events=[Event(each.name, dict(each.attributes), _ns(each.time)) for each in span.moments],
            kind=SpanKind.CLIENT if span.client else SpanKind.INTERNAL,
            status=Status(_STATUS[span.status], span.message or None if span.status == "error" else None),
            start_time=_ns(span.start),
            end_time=_ns(span.end),
            instrumentation_scope=_SCOPE,
        )


class _Metrics:
    """Metrics of the GenAI conventions, measured on spans, and gauges."""

    def __init__(self, exporter: OTLPMetricExporter, resource: Resource, gauges: Sequence[Gauge]) -> None:
        self.dropped = 0
        self.exporter = exporter
        self._every_s = float(os.environ.get("OTEL_METRIC_EXPORT_INTERVAL") or 60_000) / 1000
        self._sent = time.monotonic()
        # Not the SDK's periodic reader: it starts a thread in every process that is forked off.
        self._reader = InMemoryMetricReader(
            getattr(exporter, "_preferred_temporality", None),
            getattr(exporter, "_preferred_aggregation", None),
        )
        self._provider = MeterProvider([self._reader], resource, shutdown_on_exit=False)
        meter = self._provider.get_meter("placet", __version__)
        self._tokens = meter.create_histogram(
            "gen_ai.client.token.usage",
            "{token}",
            "Number of input and output tokens used.",
            explicit_bucket_boundaries_advisory=_TOKENS,
        )
        self._seconds = meter.create_histogram(
            "gen_ai.client.operation.duration",
            "s",
            "GenAI operation duration.",
            explicit_bucket_boundaries_advisory=_SECONDS,
        )
        self._cost = meter.create_counter("placet.cost", "USD", "Cost of model calls.")
        meter.create_observable_counter(
            "placet.otel.dropped_spans",
            [lambda _: [Observation(self.dropped)]],
            "{span}",
            "Spans that were not exported.",
        )
        self._meter = meter
        self._gauges = gauges
        self._made = 0

    def measure(self, span: OtelSpan) -> None:
        """Count a finished span."""
        found = span.attributes
        operation = found.get("gen_ai.operation.name")
        if operation is None:
            return
        about: dict[str, Any] = {name: found[name] for name in _MEASURED if name in found}
        for name in ("gen_ai.tool.name", "error.type"):
            if name in found:
                about[name] = found[name]
        self._seconds.record(span.end - span.start, about)
        if operation != "chat":
            return
        about.pop("error.type", None)
        for kind in ("input", "output"):
            count = found.get(f"gen_ai.usage.{kind}_tokens")
            if isinstance(count, int):
                self._tokens.record(count, {**about, "gen_ai.token.type": kind})
        cost = found.get("placet.cost_usd")
        if isinstance(cost, float):
            self._cost.add(cost, about)

    def are_due(self) -> bool:
        """Whether they were not sent for a while."""
        return time.monotonic() - self._sent >= self._every_s

    def send(self) -> bool:
        """Send them; whether they were accepted."""
        self._sent = time.monotonic()
        for gauge in self._gauges[self._made :]:
            self._meter.create_observable_gauge(gauge.name, [_callback(gauge)], gauge.unit, gauge.description)
            self._made += 1
        data = self._reader.get_metrics_data()
        return data is None or self.exporter.export(data) is MetricExportResult.SUCCESS


def _callback(gauge: Gauge) -> Any:
    def observe(_: CallbackOptions) -> Iterator[Observation]:
        for value, attributes in gauge.observe():
            yield Observation(value, dict(attributes))

    return observe


def _signal(settings: OtelSettings, signal: str) -> str | None:
    return f"{settings.endpoint.rstrip('/')}/v1/{signal}" if settings.endpoint is not None else None


def _names_service() -> bool:
    return "OTEL_SERVICE_NAME" in os.environ or "service.name=" in os.environ.get(
        "OTEL_RESOURCE_ATTRIBUTES", ""
    )


def _sets_timeout() -> bool:
    return any(name.startswith("OTEL_EXPORTER_OTLP") and name.endswith("TIMEOUT") for name in os.environ)


def _ns(seconds: float) -> int:
    return round(seconds * 1e9)
