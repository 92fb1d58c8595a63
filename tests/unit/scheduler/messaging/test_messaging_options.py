# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Options of oslo.messaging that cannot work are refused before anything is connected."""

from collections.abc import Callable
from pathlib import Path

import oslo_messaging
import pytest
from oslo_config import cfg

from conf.loading import ConfigError
from scheduler.messaging.messaging_options import checked_transport
from scheduler.messaging.transport import UnusableTransport

RABBIT = "[oslo_messaging_rabbit]"
Checked = Callable[[str], oslo_messaging.Transport]


@pytest.fixture
def checked(tmp_path: Path) -> Checked:
    """What checks the options in the text of a file."""

    def check(text: str) -> oslo_messaging.Transport:
        path = tmp_path / "own.conf"
        path.write_text(text)
        conf = cfg.ConfigOpts()
        conf([f"--config-file={path}"], project="berthmaster", default_config_dirs=[])
        return checked_transport(conf)

    return check


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[DEFAULT]\ntransport_url = rabbit://u:p@a:1,u:p@b:65535,u:p@c/host\n",
        "[DEFAULT]\ntransport_url = kombu+memory:///\n",
        "[DEFAULT]\ntransport_url = fake://\nexecutor_thread_pool_size = 1\n",
        "[DEFAULT]\nrpc_conn_pool_size = 5\n",
        f"{RABBIT}\nheartbeat_rate = 2\nkombu_compression = gzip\nssl_ca_file = /nowhere\n",
        f"{RABBIT}\nrabbit_hosts = a:5672\nheartbeat_in_pthread = true\n",
    ],
)
def test_what_can_work_is_left_alone(checked: Checked, text: str) -> None:
    assert checked(text) is not None


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("rabbit://u:secret@h:0/", "port 0 of host 'h' is not a number from 1 to 65535"),
        (
            "rabbit://u:secret@a:1,u:secret@b:99999/",
            "port 99999 of host 'b' is not a number from 1 to",
        ),
        ("rabbit://u:secret@h:-5/", "port -5 of host 'h' is not a number from 1 to 65535"),
        ("kombu+nosuch://u:secret@h:1/", "kombu cannot use 'kombu+nosuch': 'No such transport"),
        ("rabbits://u:secret@h:1/", "'rabbits'"),
        ("", "scheme"),
    ],
)
def test_a_url_of_no_use_is_named_without_its_password(
    checked: Checked, url: str, expected: str
) -> None:
    with pytest.raises(UnusableTransport) as caught:
        checked(f"[DEFAULT]\ntransport_url = {url}\n")
    assert str(caught.value).startswith("option [DEFAULT] transport_url in ")
    assert expected in str(caught.value)
    assert "secret" not in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (f"{RABBIT}\nheartbeat_timeout_threshold = soon", "heartbeat_timeout_threshold = 'soon'"),
        (f"{RABBIT}\nrabbit_login_method = NONE", "rabbit_login_method = 'NONE'"),
        (f"{RABBIT}\nheartbeat_rate = 0", "heartbeat_rate = 0"),
        (f"{RABBIT}\nrpc_conn_pool_size = 0", "rpc_conn_pool_size = '0'"),
        (f"{RABBIT}\nkombu_compression = zipped", "kombu_compression = zipped"),
        (f"{RABBIT}\nssl = true\nssl_ca_file = /nowhere/ca.pem", "ssl_ca_file = /nowhere/ca.pem"),
        ("[DEFAULT]\nrpc_response_timeout = long", "rpc_response_timeout = 'long'"),
        ("[DEFAULT]\nrpc_ping_enabled = perhaps", "rpc_ping_enabled = 'perhaps'"),
        ("[DEFAULT]\nexecutor_thread_pool_size = 0", "executor_thread_pool_size = 0"),
    ],
)
def test_a_value_of_no_use_is_named_with_option_and_file(
    checked: Checked, text: str, expected: str
) -> None:
    group = text.partition("\n")[0]
    with pytest.raises(ConfigError) as caught:
        checked(text)
    assert str(caught.value).startswith(f"option {group} {expected} in ")
    assert "own.conf: " in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_file_that_is_there_is_left_to_the_driver(checked: Checked, tmp_path: Path) -> None:
    (tmp_path / "ca.pem").write_text("")
    assert checked(f"{RABBIT}\nssl = true\nssl_ca_file = {tmp_path}/ca.pem\n")


def test_nothing_is_asked_of_the_options_of_other_drivers(checked: Checked) -> None:
    assert checked(f"[DEFAULT]\ntransport_url = fake://\n{RABBIT}\nheartbeat_rate = 0\n")
