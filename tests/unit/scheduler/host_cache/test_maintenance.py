# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Maintenance of a host reaches the cache at its next reading, and counts as disabled."""

import pytest

from inventory import services
from inventory.operations import service_operations
from scheduler.host_cache.cache import HostCache
from scheduler.hosts.host_state import HostState
from tests.databases import a_node, save, serve


@pytest.fixture
def cache(database):
    """A cache of one living host that has been read already."""
    save(database, a_node("h1"))
    serve(database, "h1")
    found = HostCache(database)
    assert seen(found) == (False, None)
    return found


def seen(cache):
    with cache.current() as hosts:
        state = HostState.of(hosts, hosts.row_of("h1", "h1"))
        return state.service_disabled, state.disabled_reason


def test_a_host_in_maintenance_is_disabled(cache, database):
    database.write(lambda c: service_operations.begin_maintenance(c, ["h1"], "new lamp"))
    assert seen(cache) == (True, "in maintenance: new lamp")
    database.write(lambda c: service_operations.end_maintenance(c, ["h1"]))
    assert seen(cache) == (False, None)


def test_the_agent_does_not_end_it(cache, database):
    (service,) = database.read(services.all_live)
    database.write(lambda c: service_operations.begin_maintenance(c, ["h1"]))
    database.write(lambda c: services.disable_automatically(c, [service.id], "gone"))
    assert seen(cache) == (True, "in maintenance; disabled: AUTO: gone")
    database.write(lambda c: services.enable_automatically(c, [service.id]))
    assert seen(cache) == (True, "in maintenance")
