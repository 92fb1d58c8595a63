# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Tests of conf.daemon.tracing: what it imports, and what it says where that is missing."""

import sys
from types import ModuleType

import pytest
from oslo_config import cfg

from conf.daemon import tracing
from conf.loading import ConfigError


@pytest.fixture
def conf():
    """Return the options as oslo.messaging has them."""
    found = cfg.ConfigOpts()
    options = [cfg.BoolOpt("tracing_enabled", default=False), cfg.StrOpt("otlp_protocol")]
    found.register_opts(options, group=tracing.GROUP)
    found([], default_config_files=[], default_config_dirs=[])
    return found


@pytest.mark.parametrize(
    ("protocol", "extra"), [("http/protobuf", "tracing-http"), ("grpc", "tracing-grpc")]
)
def test_what_is_not_installed_stops_the_start(conf, monkeypatch, protocol, extra):
    monkeypatch.setitem(sys.modules, "opentelemetry", None)
    conf.set_override("otlp_protocol", protocol, group=tracing.GROUP)
    tracing.prepare(conf)
    conf.set_override("tracing_enabled", True, group=tracing.GROUP)
    with pytest.raises(ConfigError, match=rf"tracing_enabled in .*oslo\.messaging\[{extra}\]"):
        tracing.prepare(conf)


def test_what_is_installed_is_imported(conf, monkeypatch):
    for name in ("opentelemetry.sdk.trace", f"{tracing._EXPORTERS}.http.trace_exporter"):
        monkeypatch.setitem(sys.modules, name, ModuleType(name))
    conf.set_override("otlp_protocol", "http/protobuf", group=tracing.GROUP)
    conf.set_override("tracing_enabled", True, group=tracing.GROUP)
    tracing.prepare(conf)


def test_a_library_without_the_options_needs_nothing():
    tracing.prepare(cfg.ConfigOpts())


def test_the_options_are_those_of_the_library():
    from oslo_messaging._tracing import client

    (protocol,) = (each for each in client.oslo_messaging_tracing if each.name == "otlp_protocol")
    assert {*dict(protocol.type.choices)} == {*tracing._PROTOCOLS}
