"""Watching hosts: metrics for Prometheus, traces for OpenTelemetry, structured logs, health and readiness over HTTP.

Nothing of it is loaded, and nothing is measured, unless it is asked for: `Host(observers=[Metrics()])`.
"""
