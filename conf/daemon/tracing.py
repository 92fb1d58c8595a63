# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Traces of messages for OpenTelemetry."""

from importlib import import_module

from oslo_config import cfg

from conf.loading import ConfigError, source

GROUP = "oslo_messaging_tracing"
_EXPORTERS = "opentelemetry.exporter.otlp.proto"
# By [oslo_messaging_tracing] otlp_protocol: the exporter, and the extra that installs it.
_PROTOCOLS = {"http/protobuf": ("http", "tracing-http"), "grpc": ("grpc", "tracing-grpc")}


def is_enabled(conf: cfg.ConfigOpts) -> bool:
    """Return whether messages are traced."""
    return GROUP in conf and bool(conf[GROUP].tracing_enabled)


def prepare(conf: cfg.ConfigOpts) -> None:
    """Import the exporter of traces; raise ConfigError if it is not installed.

    oslo.messaging 18.3 uses it without an import, and logs an error for each message without one.
    """
    if not is_enabled(conf):
        return
    name, extra = _PROTOCOLS[conf[GROUP].otlp_protocol]
    try:
        import_module("opentelemetry.sdk.trace")
        import_module(f"{_EXPORTERS}.{name}.trace_exporter")
    except ImportError as error:
        where = source(conf, GROUP, "tracing_enabled")
        raise ConfigError(
            f"option [{GROUP}] tracing_enabled in {where}: {error};"
            f" pip install 'oslo.messaging[{extra}]' installs what it needs"
        ) from error
