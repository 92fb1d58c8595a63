# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""What RabbitMQ answers to a declaration that does not fit names what is to be changed."""

import logging

import oslo_messaging
import pytest
from oslo_config import cfg

from conf.private_apis import RABBIT_LOGGER
from scheduler.messaging.broker_check import access_refusal, mismatch, mismatch_not_logged
from scheduler.messaging.transport import rpc_transport

QUORUM = (
    "Unable to connect to AMQP server on 127.0.0.1:5672 after inf tries: Queue.declare: (406)"
    " PRECONDITION_FAILED - inequivalent arg 'x-queue-type' for queue '{}' in vhost 'v1': received"
    " the value 'quorum' of type 'longstr' but current is none"
)
OTHERS = (
    "Exchange.declare: (406) PRECONDITION_FAILED - inequivalent arg '{}' for {} '{}' in vhost '/':"
    " received 'true' but current is 'false'"
)
NOT_DURABLE = (
    "Queue.declare: (406) PRECONDITION_FAILED - invalid property 'non-durable' for queue '{}' in"
    " vhost 'v1'"
)


def text_of(text):
    found = mismatch(oslo_messaging.MessageDeliveryFailure(text), "nova")
    assert found is not None
    return str(found)


def test_queue_option_and_cure_are_named_in_one_line():
    assert text_of(QUORUM.format("scheduler")) == (
        "the broker has the queue 'scheduler' of virtual host 'v1' with another 'x-queue-type'"
        " (received the value 'quorum' of type 'longstr' but current is none): set"
        " [oslo_messaging_rabbit] rabbit_quorum_queue as the services that made it, delete it if"
        " no other service uses it, or use a new virtual host"
    )


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (QUORUM.format("scheduler_fanout_abc"), "] rabbit_transient_quorum_queue and rabbit_s"),
        (QUORUM.format("reply_abc"), "] rabbit_transient_quorum_queue and rabbit_stream_fanout as"),
        (
            OTHERS.format("durable", "exchange", "nova"),
            "the exchange 'nova' of virtual host '/' with another 'durable' (received 'true' but"
            " current is 'false'): set [oslo_messaging_rabbit] rabbit_quorum_queue and"
            " amqp_durable_queues as",
        ),
        (OTHERS.format("durable", "exchange", "a_fanout"), "] rabbit_transient_quorum_queue as"),
        (OTHERS.format("auto_delete", "queue", "compute"), "] amqp_auto_delete as"),
        (OTHERS.format("x-expires", "queue", "a_fanout_b"), "] rabbit_transient_queues_ttl as"),
        (OTHERS.format("x-new", "queue", "a"), "] the options that decide it as"),
        (
            NOT_DURABLE.format("scheduler"),
            "the exchange 'nova' of virtual host 'v1' with another 'durable': set"
            " [oslo_messaging_rabbit] rabbit_quorum_queue and",
        ),
        (
            NOT_DURABLE.format("scheduler_fanout_abc"),
            "the exchange 'scheduler_fanout' of virtual host 'v1' with another 'durable': set"
            " [oslo_messaging_rabbit] rabbit_transient_quorum_queue as",
        ),
    ],
)
def test_each_property_has_its_options(text, expected):
    assert expected in text_of(text)


def test_other_errors_are_none():
    assert mismatch(OSError("Connection refused"), "nova") is None


def test_what_is_raised_is_not_logged_too(caplog):
    library = logging.getLogger(RABBIT_LOGGER)
    with caplog.at_level(logging.INFO), mismatch_not_logged():
        library.error("Failed: %s", QUORUM.format("scheduler"))
        library.warning("Once more: %s", QUORUM.format("scheduler"))
        library.error("Connection refused")
    library.error("Later: %s", QUORUM.format("scheduler"))
    logged = [each.getMessage().partition(":")[0] for each in caplog.records]
    assert logged == ["Once more", "Connection refused", "Later"]


@pytest.mark.parametrize(
    "why",
    [
        "ACCESS_REFUSED - access to exchange 'nova' in vhost '/' refused for user 'u'",
        "NOT_ALLOWED - vhost nowhere not found",
    ],
)
def test_a_refused_right_names_account_address_and_reason(why):
    conf = cfg.CONF
    conf([], project="berthmaster", default_config_files=[], default_config_dirs=[])
    rpc_transport(conf)
    conf.set_override("transport_url", "rabbit://u:secret@a:1,u:secret@b:2/")
    found = access_refusal(OSError(f"Exchange.declare: (403) {why}"), conf)
    conf.clear_override("transport_url")
    assert f"account 'u' at a:1 or the account 'u' at b:2: {why.partition(' - ')[2]}" in str(found)
    assert "secret" not in str(found)
    assert access_refusal(OSError("Connection refused"), conf) is None
