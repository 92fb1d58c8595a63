# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Tests of scheduler.host_cache.cache: what rows and decisions say about instances."""

import json

import pytest

from inventory import instances, stored_documents
from scheduler.decision.pipeline import Plan, Request, decide
from scheduler.host_cache.cache import HostCache
from tests.builders import a_flavor, a_request
from tests.databases import a_node, an_instance, save


@pytest.fixture(params=[0, 3600], ids=["reloads", "deltas"])
def cache(request, cloud):
    """Return a cache that has been read and is read again for each look."""
    found = HostCache(cloud, reload_interval=request.param)
    look(found)
    return found


def look(cache):
    """Return {host: {uuid: instance}}."""
    with cache.current() as hosts:
        return {hosts.get(row, "host"): dict(hosts.instances.on(row)) for row in hosts.rows()}


def there(cache, host):
    return sorted(look(cache)[host])


def report(database, host, *seen):
    database.write(lambda c: instances.replace(c, host, host, list(seen)))


def test_a_row_tells_flavor_and_image(cloud, cache):
    properties = json.dumps({"os_distro": "debian"})
    report(cloud, "h1", an_instance("u1", flavor_id=7, image_properties=properties))
    found = look(cache)["h1"]["u1"]
    assert (found.instance_type_id, found.image_properties) == (7, {"os_distro": "debian"})
    with cache.current() as hosts:
        count = hosts.instances.count(("image", "os_distro", "debian"), hosts.size)
        assert sum(count) == count[hosts.row_of("h1", "h1")] == 1


def test_a_broken_row_spoils_nothing(cloud, cache, caplog):
    stored_documents.warn.cache_clear()
    report(cloud, "h1", an_instance("u1", image_properties="{broken"), an_instance("u2"))
    assert look(cache)["h1"]["u1"].image_properties is None
    assert there(cache, "h1") == ["u1", "u2"]
    assert caplog.text.count("Column image_properties of instance u1 cannot be read") == 1


def test_rows_that_come_before_their_node_show_with_it(cloud, cache):
    report(cloud, "h3", an_instance("u1"))
    assert "h3" not in look(cache)
    save(cloud, a_node("h3"))
    assert there(cache, "h3") == ["u1"]


def take(cache, host, uuid, **changes):
    spec = a_request(force_hosts=[host], instance_uuid=uuid, **changes)
    with cache.current() as hosts:
        decision = decide(hosts.working_copy(), Request(spec, [uuid]), Plan())
    cache.consume(decision, spec)


def test_what_is_known_of_an_instance_survives_its_promise(cloud, cache):
    flavor = a_flavor(id=5, name="m1.large")
    report(cloud, "h1", an_instance("u1", vm_state="stopped", flavor_name="m1.small"))
    look(cache)
    # A resize on the same host.
    take(cache, "h1", "u1", flavor=flavor)
    for _ in range(2):
        found = look(cache)["h1"]["u1"]
        assert (found.vm_state, found.instance_type_id) == ("stopped", 5)
        assert found.flavor_name == "m1.large"
    take(cache, "h2", "u2", flavor=flavor)
    report(cloud, "h2", an_instance("u2", flavor_name="m1.large"))
    for _ in range(2):
        found = look(cache)["h2"]["u2"]
        assert (found.vm_state, found.instance_type_id) == ("active", 5)


def test_an_instance_that_is_built_on_an_alternate_is_gone_from_the_first(cloud, cache):
    take(cache, "h1", "u1")
    report(cloud, "h2", an_instance("u1"))
    assert (there(cache, "h1"), there(cache, "h2")) == ([], ["u1"])
