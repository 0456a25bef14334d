"""Export of traces and metrics to OpenTelemetry (extra `otel`), read off the events of the log.

spans    events in, finished spans out: no clock, no network, nothing of OpenTelemetry
sink     the sink: a bounded queue, and the thread that sends what is in it
otlp     what that thread uses: the OTLP exporters of the SDK
"""
