# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Tests of inventory.mysql_pool. MariaDB only."""

import ssl

import pymysql
import pytest
import sqlalchemy as sa
from pymysql.connections import Connection

from conf import private_apis
from inventory import mysql_pool
from inventory.engine import open_database
from tests.claimed import claim, claimed
from tests.databases import a_conf, a_uuid, execute, open_at

U1, U2 = a_uuid("one"), a_uuid("two")
NUMBER = sa.text("SELECT CONNECTION_ID()")

pytestmark = pytest.mark.parametrize(
    "url", [pytest.param("mariadb", marks=pytest.mark.daemons)], indirect=True
)


@pytest.fixture
def said(monkeypatch):
    """Return a list to which everything is added that is said to the server, one text each."""
    found, send = [], pymysql.connections.Connection._execute_command

    def noting(connection, command, text):
        words = text.decode() if isinstance(text, bytes) else text
        found.append(words.split(" FROM ")[0].split("(")[0].split(" SET ")[0] or f"ping {command}")
        return send(connection, command, text)

    monkeypatch.setattr(pymysql.connections.Connection, "_execute_command", noting)
    return found


@pytest.fixture
def node(cloud):
    return cloud.read(lambda c: c.execute(sa.text("SELECT * FROM compute_nodes")).first())


def number(database):
    return database.read(lambda connection: connection.scalar(NUMBER))


def kill_all_but(database, own):
    """End the connections that wait in the pool of another database."""
    text = "SELECT id FROM information_schema.processlist WHERE db = DATABASE() AND id <> :own"
    ids = database.read(lambda c: c.scalars(sa.text(text), {"own": own}).all())
    for each in ids:
        execute(database, f"KILL {each}")
    return len(ids)


def test_a_claim_says_no_more_than_it_must(cloud, node, said):
    said.clear()
    claim(cloud, U1, node)
    expected = ["SELECT", "SELECT compute_nodes", "UPDATE", "INSERT INTO allocations", "COMMIT"]
    assert len(said) == len(expected)
    assert all(map(str.startswith, said, expected))


def test_a_connection_that_was_used_just_now_is_used_again_without_asking(database, said):
    assert number(database) == number(database)
    assert "ping 14" not in said


def test_a_connection_that_was_not_used_for_a_while_is_asked_for(database, said, monkeypatch):
    monkeypatch.setattr(mysql_pool, "TRUSTED", 0.0)
    first = number(database)
    said.clear()
    assert number(database) == first
    assert said[0] == "ping 14"


@pytest.mark.parametrize("trusted", [0.0, 3600.0])
def test_who_meets_a_lost_connection_does_its_work_all_the_same(
    url, cloud, node, said, monkeypatch, trusted
):
    monkeypatch.setattr(mysql_pool, "TRUSTED", trusted)
    claim(cloud, U1, node)
    killer = open_at(url)
    assert kill_all_but(killer, number(killer)) == 1
    said.clear()
    claim(cloud, U2, node)
    # Where it was asked for, nothing was tried in vain.
    assert said.count("COMMIT") == 1
    assert ("ping 14" in said) == (trusted == 0.0)
    assert claimed(cloud) == {U1: "pending", U2: "pending"}
    killer.close()


def test_all_connections_that_were_lost_together_are_replaced_together(url, database, said):
    with database.engine.connect(), database.engine.connect(), database.engine.connect():
        pass
    killer = open_at(url)
    assert kill_all_but(killer, number(killer)) == 3
    said.clear()
    number(database)
    with database.engine.connect() as one, database.engine.connect() as other:
        assert one.scalar(NUMBER) != other.scalar(NUMBER)
    assert len([each for each in said if each.startswith("SET TRANSACTION")]) == 1 + 3
    killer.close()


def test_what_was_not_committed_is_gone_when_the_connection_comes_back(database):
    with database.engine.connect() as connection:
        connection.execute(sa.text("INSERT INTO revisions (name, revision) VALUES ('a', 1)"))
    count = sa.text("SELECT COUNT(*) FROM revisions")
    assert database.read(lambda c: c.scalar(count)) == 0


def test_parameters_of_the_operator_leave_the_connections_ours(url, said):
    own = open_database(a_conf(connection=url, connection_parameters="read_timeout=7"))
    assert own.engine.url.query["read_timeout"] == "7"
    assert "write_timeout" not in own.engine.url.query
    number(own)
    said.clear()
    number(own)
    assert "ROLLBACK" not in said
    own.close()


def test_certificates_are_read_once_for_connections_that_ask_for_none(database, monkeypatch):
    read, create = [], ssl.create_default_context

    def counting(*args, **options):
        read.append(options)
        return create(*args, **options)

    monkeypatch.setattr(ssl, "create_default_context", counting)
    unused = private_apis.sharing_tls_context(Connection)
    monkeypatch.setattr(mysql_pool, "SharingConnection", unused)
    database.close()
    with database.engine.connect(), database.engine.connect(), database.engine.connect():
        assert len(read) == 1


def test_certificates_that_the_url_names_are_looked_at(url):
    with pytest.raises(FileNotFoundError):
        open_at(f"{url}&ssl_ca=/nowhere/ca.pem")
