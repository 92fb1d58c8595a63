# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""The installed libraries have every private name that conf.private_apis uses.

An upgrade that drops one fails here, and not with a warning in the log of an operator.
"""

import argparse
import configparser
import inspect
import re
from importlib import import_module, metadata
from itertools import chain
from operator import attrgetter
from pathlib import Path
from typing import Any

import oslo_messaging
import pytest
from oslo_config import cfg
from pymysql.connections import Connection

from conf import private_apis, private_rabbit
from conf.private_apis import PrivateName
from scheduler.messaging.server import RpcServer
from tests.fixtures.daemons.process import PATIENCE

ENTRIES = {name: each for name, each in vars(private_apis).items() if isinstance(each, PrivateName)}


class Endpoint:
    """Answers."""

    target = oslo_messaging.Target()

    def ask(self, context: dict[str, Any]) -> str:
        return "answer"


@pytest.fixture(scope="module")
def owners() -> Any:
    """Return the object of each entry from which its path leads to the private part."""
    cfg.CONF([], project="berthmaster", default_config_files=[], default_config_dirs=[])
    transport = oslo_messaging.get_rpc_transport(cfg.CONF, url="kombu+memory:///")
    under_test = RpcServer(transport, "private", "server", [Endpoint()], 1)
    server = under_test._server
    received: list[Any] = []
    process = server._process_incoming
    server._process_incoming = lambda incoming: (received.extend(incoming), process(incoming))
    under_test.start()
    client = oslo_messaging.get_rpc_client(transport, oslo_messaging.Target(topic="private"))
    assert client.prepare(timeout=PATIENCE).call({}, "ask") == "answer"
    consumer = next(iter(server.listener._poll_style_listener.conn._consumers))
    of_a_message = ("REPLY_QUEUE", "PROPERTIES", "BODY", "CALL_MONITOR_TIMEOUT")
    of_a_server = ("EXECUTOR", "DISPATCH", "LISTEN_THREAD", "RECEIVED", "CONNECTED")
    yield {
        **dict.fromkeys((*of_a_server, "CONSUME", "CONSUMERS"), server),
        **dict.fromkeys(("CALLBACK", "CANCEL"), consumer),
        **dict.fromkeys(of_a_message, received[0]),
        "DELIVERY": received[0].message,
        "SEND_NOTIFICATION": transport,
        "WORKER_SERVICE": import_module(private_apis.WORKER_MODULE),
        **dict.fromkeys(("OPTIONS", "GROUPS", "COMMAND_LINE"), cfg.CONF),
        "TLS_CONTEXT": Connection,
        "ARGUMENTS": argparse.ArgumentParser(),
    }
    under_test.drain()
    transport.cleanup()
    cfg.CONF.clear_default("rabbit_qos_prefetch_count", "oslo_messaging_rabbit")
    cfg.CONF.reset()


@pytest.mark.parametrize("name", ENTRIES)
def test_the_installed_library_has_the_name(owners: dict[str, Any], name: str) -> None:
    # Raises AttributeError with the part of the path that is missing.
    attrgetter(ENTRIES[name].path)(owners[name])


def test_what_is_replaced_is_what_the_library_uses(owners: dict[str, Any]) -> None:
    server = owners["EXECUTOR"]
    assert type(server._work_executor).__name__ == "BoundedExecutor"
    assert private_apis.expiration(owners["PROPERTIES"]) == PATIENCE
    assert private_apis.size_of(owners["BODY"]) > 100
    assert private_apis.is_connected(server)
    assert callable(owners["WORKER_SERVICE"].ServiceWrapper.reload)
    options = private_apis.registered_options(cfg.CONF)
    assert isinstance(options["oslo_messaging_rabbit", "rabbit_qos_prefetch_count"], cfg.Opt)
    assert isinstance(options["DEFAULT", "transport_url"], cfg.Opt)


def test_the_rabbit_driver_and_the_libraries_below_have_all_names(monkeypatch: Any) -> None:
    cfg.CONF([], project="berthmaster", default_config_files=[], default_config_dirs=[])
    # It connects nothing.
    transport = oslo_messaging.get_rpc_transport(cfg.CONF, url="rabbit://127.0.0.1:1/")
    assert private_rabbit.is_rabbit(transport)
    assert private_rabbit.missing_name(transport) is None
    driver = import_module("oslo_messaging._drivers.impl_rabbit")
    # Each is looked for.
    monkeypatch.delattr(driver.Consumer, "_callback")
    missing = private_rabbit.missing_name(transport)
    assert missing is not None
    assert missing.path == "_callback"
    cfg.CONF.reset()


def test_the_loggers_and_their_messages() -> None:
    rabbit = import_module("oslo_messaging._drivers.impl_rabbit")
    amqp = import_module("oslo_messaging._drivers.amqpdriver")
    assert rabbit.LOG.logger.name == private_apis.RABBIT_LOGGER
    assert amqp.LOG.name == private_apis.AMQP_LOGGER
    assert private_apis.UNREADABLE_MESSAGE in inspect.getsource(rabbit)
    assert private_apis.DUPLICATE_MESSAGE in inspect.getsource(amqp)
    assert import_module(private_apis._IN_MEMORY).FakeListener


# Not those of Python, whose releases setup.cfg does not bound.
@pytest.mark.parametrize(
    "library", sorted({each.library for each in ENTRIES.values()} - {"Python"} | {"amqp"})
)
def test_the_installed_release_is_within_the_bounds_of_the_package(library: str) -> None:
    setup = configparser.ConfigParser()
    setup.read(Path(__file__).parents[2] / "setup.cfg")
    bounds = dict(
        re.findall(r"^([\w.]+)\S*?<([\d.]+)$", setup["options"]["install_requires"], re.MULTILINE)
    )
    series = [int(each) for each in metadata.version(library).split(".")[:2]]
    assert series < [int(each) for each in bounds[library].split(".")]


def test_no_other_module_uses_a_private_name() -> None:
    entries = (*ENTRIES.values(), *chain.from_iterable(private_rabbit.NAMES.values()))
    parts = {part for each in entries for part in each.path.split(".")}
    names = {part for part in parts if part.startswith("_")} - {"_groups"}
    used = re.compile(rf"\.({'|'.join(names)})\b|\b_get_opt_info\b|[\"']({'|'.join(names)})[\"']")
    root = Path(private_apis.__file__).parents[1]
    modules = [
        path
        for package in ("conf", "inventory", "scheduler", "compute_agent")
        for path in (root / package).rglob("*.py")
        if path not in (Path(private_apis.__file__), Path(private_rabbit.__file__))
    ]
    assert len(modules) > 100
    found = {match[1] or match[0] for path in modules for match in used.finditer(path.read_text())}
    assert found == set()
