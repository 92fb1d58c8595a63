# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""The broker is asked over one connection as long as that works, and over another one after."""

import logging
from collections.abc import Iterator
from threading import Thread

import kombu
import oslo_messaging
import pytest
from oslo_config import cfg

from conf.daemon.health import THREADS
from scheduler.messaging import broker_check
from scheduler.messaging.broker_check import BrokerCheck

Urls = list[str]


@pytest.fixture
def conf() -> Iterator[cfg.ConfigOpts]:
    """The process-wide options, which oslo.messaging insists on."""
    conf = cfg.CONF
    conf([], project="berthmaster", default_config_files=[], default_config_dirs=[])
    oslo_messaging.TransportURL.parse(conf, "rabbit://")
    conf.set_override("transport_url", "kombu+memory:///")
    yield conf
    conf.clear_override("transport_url")
    conf.reset()


@pytest.fixture
def check(conf: cfg.ConfigOpts) -> Iterator[BrokerCheck]:
    found = BrokerCheck(conf)
    yield found
    found.close()


def test_a_connection_that_works_is_kept(check: BrokerCheck) -> None:
    check.probe()
    first = check._transport
    assert first is not None
    check.probe()
    assert check._transport is first


def test_one_that_fails_is_replaced_at_once(
    check: BrokerCheck, monkeypatch: pytest.MonkeyPatch
) -> None:
    check.probe()
    first, real = check._transport, broker_check.probe_broker

    def probe_broker(conf: cfg.ConfigOpts, transport: oslo_messaging.Transport) -> None:
        if transport is first:
            raise OSError("closed by the broker")
        real(conf, transport)

    monkeypatch.setattr(broker_check, "probe_broker", probe_broker)
    check.probe()
    assert check._transport not in (None, first)


def test_what_is_wrong_is_raised_and_nothing_kept(check: BrokerCheck, conf: cfg.ConfigOpts) -> None:
    conf.set_override("transport_url", "rabbit://guest:guest@127.0.0.1:1/")
    with pytest.raises(kombu.exceptions.OperationalError, match="refused"):
        check.probe()
    assert check._transport is None
    conf.set_override("transport_url", "kombu+memory:///")
    check.probe()


def test_the_log_has_nothing_of_it(check: BrokerCheck, caplog: pytest.LogCaptureFixture) -> None:
    library = logging.getLogger("oslo.messaging._drivers.impl_rabbit")
    for name in (f"{THREADS}-broker", "bus"):
        thread = Thread(target=lambda: library.error("AMQP server is unreachable"), name=name)
        thread.start()
        thread.join()
    assert [each.threadName for each in caplog.records] == ["bus"]
    # Others may have filters there.
    during = [*library.filters]
    check.close()
    assert len(library.filters) == len(during) - 1
