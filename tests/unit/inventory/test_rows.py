# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Tests of inventory.rows, and of readers that ask for some columns only."""

from inventory import compute_nodes, instances, services
from scheduler.host_cache import instance_sources, node_rows
from scheduler.host_cache.refresh_queries import SERVICE_COLUMNS
from scheduler.wire import push_messages
from tests.databases import a_node, an_instance, migrated, save, serve


def test_rows_have_the_columns_that_were_asked_for(tmp_path):
    database = migrated(tmp_path)
    save(database, a_node("h1", vcpus=5))
    (row,) = database.read(lambda c: compute_nodes.all_live(c, ("host", "vcpus")))
    assert row == ("h1", 5)
    assert (row.host, row.vcpus) == ("h1", 5)
    (whole,) = database.read(compute_nodes.all_live)
    (same,) = database.read(lambda c: compute_nodes.by_ids(c, [whole.id]))
    assert whole == same
    assert (whole.deleted, whole.generation) == (0, 1)
    assert database.read(lambda c: compute_nodes.by_ids(c, [])) == []
    database.close()


def test_a_view_reads_what_agents_push(tmp_path):
    database = migrated(tmp_path)
    save(database, a_node("h1"))
    serve(database, "h1")
    database.write(lambda c: instances.replace(c, "h1", "h1", [an_instance("u1")]))

    class Written:
        nodes = database.read(lambda c: compute_nodes.all_live(c, node_rows.COLUMNS))
        instances = database.read(instances.all_live)
        claims = ()

    # It has every column that is pushed, and nothing besides; only earlier releases need the time.
    pushed = push_messages.encode(Written)
    assert {*pushed["nodes"][0]} == {*node_rows.COLUMNS}
    assert {*pushed["instances"][0]} == {*instance_sources.COLUMNS, "updated_at"}
    (service,) = database.read(lambda c: services.all_live(c, None, SERVICE_COLUMNS))
    assert (service.host, services.switched_off(service)) == ("h1", (False, None))
    assert services.heartbeat_age(service) < 60
    database.close()
