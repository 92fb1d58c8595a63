# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Where is it, and what is wrong: the search box, the page of an instance, the services."""

from datetime import datetime
from importlib import metadata

import pytest

from inventory import compute_nodes, leases, migrations
from inventory import services as inventory_services
from inventory.heartbeat import Heartbeat
from inventory.objects.node_json import numa_topology_to_json, pci_pools_to_json
from inventory.objects.pci_and_network import PciDevicePool
from scheduler.operators.status_pages import services
from scheduler.operators.status_pages.messages import PageRequest
from scheduler.operators.status_pages.routes import Site
from scheduler.operators.status_pages.source import Source
from tests.databases import a_conf, a_uuid, execute
from tests.numa import a_cell, a_topology
from tests.unit.scheduler.operators.status_pages.conftest import HEALTH, NAMES


def test_a_page_of_a_host_says_that_a_ratio_is_not_known(fleet, facts, page):
    ratio = "UPDATE compute_nodes SET cpu_allocation_ratio = {} WHERE host = :host"
    (before,) = facts(f"/hosts/{NAMES[0]}")[1]["nodes"]
    execute(fleet.database, ratio.format("NULL"), host=NAMES[0])
    try:
        (node,) = facts(f"/hosts/{NAMES[0]}")[1]["nodes"]
        found = node["resources"]["vCPUs"]
        assert (found["ratio"], found["limit"], found["share"]) == (None, 0, 1)
        assert node["room"]["free"]["vcpus"] <= 0
        assert '<td class="number">not known</td>' in page(f"/hosts/{NAMES[0]}")
    finally:
        execute(fleet.database, ratio.format(before["resources"]["vCPUs"]["ratio"]), host=NAMES[0])


def test_a_column_that_cannot_be_read_costs_itself_alone(fleet, facts, page):
    names = ("numa_topology", "pci_stats")
    (before,) = fleet.database.read(
        lambda c: [r for r in compute_nodes.all_live(c) if r.host == NAMES[0]]
    )
    write = "UPDATE compute_nodes SET numa_topology = :numa, pci_stats = :pci WHERE host = :host"
    devices = [PciDevicePool(product_id="1533", vendor_id="8086", numa_node=0, count=3)]
    readable = {
        "numa_topology": numa_topology_to_json(a_topology(a_cell())),
        "pci_stats": pci_pools_to_json(devices),
    }
    try:
        for broken, shown in (names, names[::-1]):
            texts = {**readable, broken: readable[broken][:20]}
            values = {"numa": texts["numa_topology"], "pci": texts["pci_stats"]}
            execute(fleet.database, write, host=NAMES[0], **values)
            (node,) = facts(f"/hosts/{NAMES[0]}")[1]["nodes"]
            lists = {"numa_topology": node["cells"], "pci_stats": node["devices"]}
            assert (len(lists[broken]), len(lists[shown])) == (0, 1)
            (problem,) = node["problems"]
            assert problem.startswith(f"Column {broken} of this compute node cannot be read: ")
            assert "until its agent writes it again" in problem
            assert f"Column {broken} of this compute node" in page(f"/hosts/{NAMES[0]}")
            assert facts("/hosts/")[0] == facts(f"/hosts/{NAMES[1]}")[0] == "200"
    finally:
        values = {"numa": before.numa_topology, "pci": before.pci_stats}
        execute(fleet.database, write, host=NAMES[0], **values)


@pytest.fixture
def guests(facts):
    """The guests of the first hosts by their names, several of which may have one."""
    found = {}
    for host in NAMES[:4]:
        for each in facts(f"/hosts/{host}")[1]["instances"]:
            found.setdefault(each["display_name"], []).append((each["uuid"], host))
    return found


@pytest.fixture
def moved(site):
    """Return a function that gives the address to which a search leads, None for a page."""

    def ask(text):
        headers = dict(site.answer(PageRequest("/search/", f"q={text}")).headers)
        return headers.get("Location")

    return ask


def test_a_search_for_one_thing_leads_to_it(moved, guests):
    assert moved("compute-00002") == "../hosts/compute-00002"
    assert moved("E-00002") == "../hosts/compute-00002"
    assert moved("req-mega") == "../decisions/2"
    assert moved("2026-x") is None
    name, uuid = next((name, each[0][0]) for name, each in guests.items() if len(each) == 1)
    for text in (uuid, uuid.upper(), uuid[:13], name, name.upper()):
        assert moved(text) == f"../instances/{uuid}", text
    # On its way, and known by its claim alone.
    assert moved(a_uuid("web 0")) == f"../instances/{a_uuid('web 0')}"


def test_a_search_for_several_things_lists_them(facts, page):
    _, found = facts("/search/", "q=COMPUTE-0001")
    assert found["hosts"] == NAMES[9:]
    assert facts("/search/", "q=%25")[1]["hosts"] == []
    _, found = facts("/search/", "q=demo")
    assert found["project"] == "demo"
    assert {each["project_id"] for each in found["instances"]} == {"demo"}
    assert facts("/search/", "q=render")[1]["project"] == "render"
    assert 'href="../decisions/?project=render"' in page("/search/", "q=render")
    assert "No host, instance, request or project has" in page("/search/", "q=no-such-thing")
    assert "No host, instance, request or project has" not in page("/search/")


def test_every_page_has_the_search_box(page):
    for path in ("/hosts/", f"/hosts/{NAMES[0]}", "/decisions/2", "/nothing/"):
        assert 'action="../search/" role="search"' in page(path)


def test_an_instance_says_where_it_is_and_why(facts, page, guests, site):
    uuid = a_uuid("web 0")
    _, found = facts(f"/instances/{uuid}")
    (claim,) = found["claims"]
    assert (found["decision"], claim["state"], claim["request_id"]) == (1, "pending", "req-web")
    text = page(f"/instances/{uuid}")
    assert f'href="../hosts/{claim["host"]}"' in text
    assert 'href="../decisions/1"' in text
    assert "No agent has seen the instance yet" in text
    name, ((uuid, host),) = next(each for each in guests.items() if len(each[1]) == 1)
    _, found = facts(f"/instances/{name}")
    assert (found["uuid"], found["places"][0]["host"]) == (uuid, host)
    assert "No decision about the instance is saved" in page(f"/instances/{uuid}")
    several = next(name for name, each in guests.items() if len(each) > 1)
    assert facts(f"/instances/{several}")[0] == "400"
    answer = site.answer(PageRequest(f"/instances/{several}"))
    assert dict(answer.headers)["Location"] == f"../search/?q={several}"


def test_wherever_an_instance_is_named_its_page_is_near(facts, page):
    claimed = f'href="../instances/{a_uuid("web 0")}"'
    host = facts("/claims/", f"instance={a_uuid('web 0')}")[1]["claims"][0]["host"]
    for path in ("/claims/", "/decisions/1", f"/hosts/{host}"):
        assert claimed in page(path), path
    guest = facts(f"/hosts/{NAMES[0]}")[1]["instances"][0]["uuid"]
    assert f'href="../instances/{guest}"' in page(f"/hosts/{NAMES[0]}")


def test_an_instance_that_is_gone_leads_to_the_decision_about_it(facts, page):
    status, found = facts(f"/instances/{a_uuid('mega 0')}")
    assert (status, found["nearest"]) == ("404", ["decision 2"])
    assert 'href="../decisions/2"' in page(f"/instances/{a_uuid('mega 0')}")
    assert facts("/instances/nobody")[0] == "404"


def test_services_have_what_the_scheduler_knows_of_itself(facts, page):
    assert facts("/services/")[1]["health"] == HEALTH
    text = page("/services/")
    assert '<th scope="row">broker</th><td><span class="badge bad">unhealthy</span>' in text
    assert "(<code>berthmaster_view_age_seconds</code>), is unknown here" in text
    assert ">2026-01-02 03:04:05</td><td><bdi>refused</bdi>" in text


def test_services_without_health_say_that_it_is_unknown(site):
    text = site.answer(PageRequest("/services/")).body.decode()
    assert "such as the broker, is unknown here" in text


def test_agents_are_counted_and_those_that_are_lost_come_first(facts, page, monkeypatch):
    agents = facts("/services/")[1]["agents"]
    assert agents["states"] == {"up": 9, "disabled": 1, "maintenance": 1, "forced_down": 1}
    assert [each["host"] for each in agents["not_up"]] == [NAMES[6], NAMES[4], NAMES[5]]
    assert agents["not_up"][1]["reason"] == "waits for new disks"
    assert agents["oldest_heartbeat"] >= 0
    assert 'href="../hosts/?state=forced_down"' in page("/services/")
    monkeypatch.setattr(services, "_LISTED", 1)
    assert len(facts("/services/")[1]["agents"]["not_up"]) == 1


def test_services_have_their_release_start_and_last_error(fleet, facts, page):
    release = metadata.version("berthmaster")
    heart = Heartbeat(fleet.database, ["s1"], inventory_services.SCHEDULER, interval=60)
    heart.start()
    heart.stop()
    (found,) = facts("/services/")[1]["schedulers"]
    assert (found["state"], found["release"]) == ("up", release)
    assert found["started_at"] is not None
    assert facts("/services/")[1]["agents"]["releases"] == {release: len(NAMES)}
    assert facts("/services/")[1]["agents"]["last_errors"] == []
    failure = {"e": "Audit failed: <libvirt> is gone", "at": "2026-01-02 03:04:05.000000"}
    change = "UPDATE services SET last_error = :e, last_error_at = :at WHERE host > :host"
    execute(fleet.database, change, **failure, host=NAMES[8])
    execute(fleet.database, change, **failure, host="r9")
    execute(fleet.database, "UPDATE services SET reported_at = NULL WHERE host = :h", h=NAMES[0])
    try:
        agents = facts("/services/")[1]["agents"]
        assert agents["releases"] == {"unknown": 1, release: len(NAMES) - 1}
        (error,) = agents["last_errors"]
        assert (error["at"], error["hosts"]) == ("2026-01-02 03:04:05", NAMES[9:])
        (found,) = facts("/services/")[1]["schedulers"]
        assert found["last_error"] == failure["e"]
        text = page("/services/")
        assert "<bdi>Audit failed: &lt;libvirt&gt; is gone</bdi>" in text
        assert "and 2 other hosts" in text
        assert "Last error of the agent, at 2026-01-02 03:04:05 UTC" in page(f"/hosts/{NAMES[9]}")
        assert "Last error of the agent" not in page(f"/hosts/{NAMES[0]}")
    finally:
        execute(fleet.database, "UPDATE services SET last_error = NULL, last_error_at = NULL")
        execute(fleet.database, "UPDATE services SET reported_at = last_seen_up")
        execute(fleet.database, "DELETE FROM services WHERE host = 's1'")


def test_the_oldest_row_of_a_living_agent_is_named(fleet, facts, page):
    execute(
        fleet.database,
        "UPDATE compute_nodes SET updated_at = :at WHERE host = :host",
        at="2026-01-02 03:04:05.000000",
        host=NAMES[1],
    )
    oldest = facts("/services/")[1]["agents"]["oldest_row"]
    assert oldest["host"] == NAMES[1]
    assert oldest["age"] > 3600
    assert f'href="../hosts/{NAMES[1]}"' in page("/services/")


def test_a_lease_names_who_does_the_work(fleet, facts, page):
    assert facts("/services/")[1]["leases"]["nova mirror"] == {
        "held": False,
        "owner": None,
        "seconds": None,
    }
    leases.hold(fleet.database, "nova mirror", "mirror1 0f", 60)
    leases.hold(fleet.database, "standbys", "s1 0e", -60)
    found = facts("/services/")[1]["leases"]
    assert (found["nova mirror"]["held"], found["nova mirror"]["owner"]) == (True, "mirror1 0f")
    assert (found["standbys"]["held"], found["standbys"]["owner"]) == (False, "s1 0e")
    text = page("/services/")
    assert "mirror of a Nova cloud" in text
    assert "An agent that stands by for a mirror has no row here" in text
    assert "ended 60 s ago" in text
    execute(fleet.database, "DELETE FROM leases")


def test_the_database_has_its_version_and_schema(facts):
    found = facts("/services/")[1]["database"]
    assert found["server"].startswith("sqlite 3.")
    assert (found["schema"], found["milliseconds"] >= 0) == (migrations.HEAD, True)


def test_services_without_a_database_still_show_the_health_of_the_scheduler():
    conf = a_conf(connection="mysql+pymysql://nobody:secret@127.0.0.1:1/none")
    answer = Site(Source(conf)).answer(PageRequest("/services/", health=HEALTH))
    text = answer.body.decode()
    assert answer.status == "200 OK"
    assert "<bdi>refused</bdi>" in text
    assert '<p class="problem">' in text
    assert "secret" not in text


def test_a_page_says_when_it_was_made_and_loads_itself_again_if_asked(page):
    text = page("/decisions/", "outcome=refused")
    made = text.partition('<time datetime="')[2].partition('"')[0]
    assert abs((datetime.now().astimezone() - datetime.fromisoformat(made)).total_seconds()) < 600
    assert "http-equiv" not in text
    assert 'href="?outcome=refused&amp;refresh=10"' in text
    text = page("/decisions/", "outcome=refused&refresh=10")
    assert '<meta http-equiv="refresh" content="10">' in text
    assert 'href="?outcome=refused"' in text
    for other in ("refresh=1", "refresh=x", "refresh=10;url=http:/x"):
        assert "http-equiv" not in page("/decisions/", other)
