# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""A transport_url of no use is refused with one line, which names the option and no secret."""

import sys
from collections.abc import Iterator
from pathlib import Path
from threading import Event

import oslo_messaging
import pytest
from oslo_config import cfg

from conf.loading import ConfigError
from scheduler.messaging import transport
from scheduler.messaging.transport import (
    UnusableTransport,
    disconnect,
    notification_transport,
    rpc_transport,
)
from tests.fixtures.daemons.process import PATIENCE

MAKE = {"DEFAULT": rpc_transport, "oslo_messaging_notifications": notification_transport}
GROUPS = pytest.mark.parametrize("group", MAKE)
URLS = {
    "u:secret@host:5672/": "the value does not begin with a scheme",
    "u:secret@rabbit://host/": "the value does not begin with a scheme",
    "://u:secret@host/": "the value does not begin with a scheme",
    "rabit://u:secret@host/": "there is no driver 'rabit', the usual one is 'rabbit'",
    "rabbit://u:secret#x@host:5672/": "/ as %2F, ? as %3F and # as %23",
    "rabbit://u:secret/x@host:5672/": "/ as %2F, ? as %3F and # as %23",
    "rabbit://u:secret@[host/": "cannot be read as a URL",
    "rabbit://u:1?secret=x@host/": "/ as %2F, ? as %3F and # as %23",
    "rabbit://u:Top@secret99@host/": "in the user name and the password, write @ as %40",
    "rabbit://u:Top@secret/99@host/": "in the user name and the password, write @ as %40",
    "rabbit://u:12/secret@host/": "/ as %2F",
    "rabbit://u:secret@h,secret@host/": "the password cannot be distinguished from the host",
    "rabbit://u:12,secret:x@host/": "the password cannot be distinguished from the host",
    "rabbit://u:x$secret@host/": "write a literal $ as $$",
    "rabbit://u:secret@host/?heartbeat_rate=x": "not a list of options of the driver",
    "rabbit://u:secret@host/?rpc_conn_pool_size=1": "rpc_conn_pool_size: 1 must be greater",
}


@pytest.fixture
def conf() -> Iterator[cfg.ConfigOpts]:
    yield cfg.CONF
    cfg.CONF.reset()


def configured(conf: cfg.ConfigOpts, directory: Path, text: str) -> cfg.ConfigOpts:
    path = directory / "berthmaster.conf"
    path.write_text(text)
    conf([f"--config-file={path}"], project="berthmaster")
    return conf


@GROUPS
@pytest.mark.parametrize("url", URLS)
def test_what_is_wrong_is_said_in_one_line(
    conf: cfg.ConfigOpts, tmp_path: Path, group: str, url: str
) -> None:
    configured(conf, tmp_path, f"[{group}]\ntransport_url = {url}\n")
    with pytest.raises(UnusableTransport) as refused:
        MAKE[group](conf)
    text = str(refused.value)
    assert text.startswith(f"option [{group}] transport_url in {tmp_path}/berthmaster.conf: ")
    assert URLS[url] in text
    assert "secret" not in text
    assert "\n" not in text
    # Nor in a traceback.
    assert refused.value.__cause__ is refused.value.__context__ is None


def test_it_is_an_error_of_the_configuration_and_of_messaging() -> None:
    assert issubclass(UnusableTransport, ConfigError)
    assert issubclass(UnusableTransport, oslo_messaging.MessagingException)


def test_notifications_without_a_url_of_their_own_go_where_calls_go(
    conf: cfg.ConfigOpts, tmp_path: Path
) -> None:
    configured(conf, tmp_path, "[DEFAULT]\ntransport_url = u:secret@host\n")
    with pytest.raises(UnusableTransport, match=r"^option \[DEFAULT\] transport_url in "):
        notification_transport(conf)


def test_a_driver_whose_library_is_not_installed(
    conf: cfg.ConfigOpts, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "confluent_kafka", None)
    configured(conf, tmp_path, "[DEFAULT]\ntransport_url = kafka://u:secret@host/\n")
    with pytest.raises(UnusableTransport, match=r"'kafka' cannot be used: .*confluent_kafka"):
        rpc_transport(conf)


def test_an_option_of_the_driver_is_named_itself(conf: cfg.ConfigOpts, tmp_path: Path) -> None:
    text = "[DEFAULT]\ntransport_url = rabbit://\n[oslo_messaging_rabbit]\nconn_pool_ttl = soon\n"
    configured(conf, tmp_path, text)
    with pytest.raises(UnusableTransport, match="conn_pool_ttl = 'soon'") as refused:
        rpc_transport(conf)
    assert "transport_url" not in str(refused.value)


@GROUPS
def test_a_url_that_can_be_used_connects_nothing(
    conf: cfg.ConfigOpts, tmp_path: Path, group: str
) -> None:
    configured(conf, tmp_path, f"[{group}]\ntransport_url = rabbit://u:p@no-such-host.invalid/\n")
    transport = MAKE[group](conf)
    assert transport.conf is not None
    transport.cleanup()


class Leaving:
    """A transport whose broker says nothing, until it may."""

    def __init__(self) -> None:
        self.may_end, self.ended = Event(), Event()

    def cleanup(self) -> None:
        assert self.may_end.wait(PATIENCE)
        self.ended.set()


def test_a_broker_that_is_gone_holds_up_no_stop(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transport, "STOP_TIMEOUT", 0.01)
    leaving = Leaving()
    disconnect(leaving)
    assert not leaving.ended.is_set()
    leaving.may_end.set()
    assert leaving.ended.wait(PATIENCE)


def test_a_broker_that_answers_is_left_in_order() -> None:
    leaving = Leaving()
    leaving.may_end.set()
    disconnect(leaving)
    assert leaving.ended.is_set()


@pytest.mark.parametrize(
    ("text", "url"),
    [
        ("rabbit_host = broker\n", "rabbit://guest:guest@broker:5672/"),
        (
            "rabbit_host = broker\nrabbit_port = 5671\nrabbit_userid = nova\n"
            "rabbit_password = p@s/s$$\nrabbit_virtual_host = /nova\nrabbit_use_ssl = True\n",
            "rabbit://nova:p%40s%2Fs%24@broker:5671/nova?ssl=1",
        ),
        (
            "rabbit_hosts = a:5672, b:5673\nrabbit_userid = nova\nrabbit_host = unused\n",
            "rabbit://nova:guest@a:5672,nova:guest@b:5673/",
        ),
        ("rabbit_host = fd00::1\n", "rabbit://guest:guest@[fd00::1]:5672/"),
        (
            "rabbit_hosts = $rabbit_host:$rabbit_port\nrabbit_host = broker\nrabbit_port = 5671\n",
            "rabbit://guest:guest@broker:5671/",
        ),
        ("rabbit_host = $control_exchange\n", "rabbit://guest:guest@nova:5672/"),
    ],
)
@pytest.mark.parametrize("section", ["oslo_messaging_rabbit", "DEFAULT"])
def test_the_broker_of_a_nova_conf_up_to_newton_is_found(
    conf: cfg.ConfigOpts, tmp_path: Path, section: str, text: str, url: str
) -> None:
    configured(conf, tmp_path, f"[{section}]\n{text}")
    rpc_transport(conf)
    assert conf.transport_url == url
    where = transport.option_in_use(conf)
    assert where == f"options rabbit_... of [oslo_messaging_rabbit] in {tmp_path}/berthmaster.conf"
    conf.clear_default("transport_url")


@pytest.mark.parametrize("section", ["oslo_messaging_rabbit", "DEFAULT"])
def test_the_files_for_tls_of_a_nova_conf_up_to_newton_are_used(
    conf: cfg.ConfigOpts, tmp_path: Path, section: str
) -> None:
    authorities = tmp_path / "ca.pem"
    text = f"[{section}]\nrabbit_host = broker\nkombu_ssl_ca_certs = {authorities}\n"
    configured(conf, tmp_path, text)
    rpc_transport(conf)
    assert conf.oslo_messaging_rabbit.ssl_ca_file == ""
    conf.clear_default("transport_url")
    configured(conf, tmp_path, f"{text}rabbit_use_ssl = True\n")
    with pytest.raises(ConfigError) as refused:
        rpc_transport(conf)
    assert str(refused.value) == (
        f"option [{section}] kombu_ssl_ca_certs = {authorities} in {tmp_path}/berthmaster.conf:"
        " cannot be read: No such file or directory"
    )
    authorities.touch()
    rpc_transport(conf)
    # Of the certificates of brokers those of others are refused then.
    assert conf.oslo_messaging_rabbit.ssl_ca_file == str(authorities)
    conf.clear_default("ssl_ca_file", "oslo_messaging_rabbit")
    conf.clear_default("transport_url")


def test_a_reference_to_nothing_is_said_of_the_options_that_have_it(
    conf: cfg.ConfigOpts, tmp_path: Path
) -> None:
    configured(conf, tmp_path, "[oslo_messaging_rabbit]\nrabbit_host = $secret\n")
    with pytest.raises(UnusableTransport) as refused:
        rpc_transport(conf)
    assert str(refused.value).startswith("options rabbit_... of [oslo_messaging_rabbit] in ")
    assert "secret" not in str(refused.value)
    conf.clear_default("transport_url")


def test_a_transport_url_wins_over_the_options_before_it(
    conf: cfg.ConfigOpts, tmp_path: Path
) -> None:
    text = "[DEFAULT]\ntransport_url = rabbit://new/\n[oslo_messaging_rabbit]\nrabbit_host = old\n"
    configured(conf, tmp_path, text)
    rpc_transport(conf)
    assert conf.transport_url == "rabbit://new/"
