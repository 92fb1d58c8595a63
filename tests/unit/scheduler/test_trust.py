# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Tests of scheduler.trust, on a real HTTPS server."""

import json
import logging
from datetime import UTC, datetime, timedelta, timezone
from threading import Thread

import pytest

from inventory import compute_nodes
from scheduler import trust
from scheduler.decision.pipeline import Plan
from scheduler.drivers.filter_scheduler import FilterScheduler
from scheduler.filters.ram import RamFilter
from scheduler.filters.trusted import TrustedFilter
from scheduler.host_cache.cache import HostCache
from scheduler.plugins import PluginError
from scheduler.select_destinations.destinations import Destinations
from scheduler.trust import Attestation, AttestationService, levels_for, seconds
from scheduler.weighers.ram import RAMWeigher
from scheduler.wire.arguments import SelectArguments
from scheduler.wire.context import RequestContext
from scheduler.wire.errors import NoValidHost
from tests.builders import a_request
from tests.databases import a_conf, a_node, save, serve
from tests.fixtures.attestation import ADDRESS, AttestationServer
from tests.fixtures.authority import an_authority
from tests.fixtures.daemons.process import PATIENCE

NODES = ["n1", "n2"]
UNKNOWN = dict.fromkeys(NODES, "unknown")
PLAN = Plan((RamFilter(), TrustedFilter()), [RAMWeigher()])
# To be waited for where nothing comes.
SHORT = 0.2


@pytest.fixture(scope="module")
def authority(tmp_path_factory):
    return an_authority(tmp_path_factory.mktemp("authority"))


@pytest.fixture
def server(authority):
    """Return a service that trusts n1 and not n2."""
    server = AttestationServer(authority, {"n1": "trusted", "n2": "untrusted"})
    yield server
    server.close()


def configured(**options):
    conf = a_conf()
    for name, value in options.items():
        conf.set_override(f"attestation_{name}", value, group="trusted_computing")
    return conf


def asking(one, timeout=PATIENCE, valid_for=60.0, pause=60.0, **settings):
    ordinary = {"server": ADDRESS, "port": one.port, "server_ca_file": str(one.authority.ca_file)}
    service = AttestationService(configured(**ordinary | settings), timeout)
    return Attestation(service, valid_for, pause)


def test_the_service_is_asked_about_all_nodes_in_one_call(server):
    assert asking(server).levels(NODES) == {"n1": "trusted", "n2": "untrusted"}
    (question,) = server.questions
    assert question.path == "/OpenAttestationWebServices/V1.0/PollHosts"
    assert question.body == {"count": 2, "hosts": ["n1", "n2"]}
    assert question.headers["Content-Type"] == "application/json"
    assert "x-auth-blob" not in question.headers


def test_who_we_are_is_said_in_a_header_and_nowhere_else(server, caplog):
    attested = asking(server, auth_blob="s3cret", api_url="v2/")
    server.answer = 403, b""
    with caplog.at_level(logging.DEBUG):
        assert attested.levels(NODES) == UNKNOWN
    (question,) = server.questions
    assert question.headers["x-auth-blob"] == "s3cret"
    assert question.path == "/v2/PollHosts"
    assert "s3cret" not in caplog.text


def test_what_is_known_is_not_asked_again(server):
    attested = asking(server, pause=0)
    for _ in range(3):
        assert attested.levels(NODES)["n1"] == "trusted"
    assert attested.levels(["n2"])["n2"] == "untrusted"
    assert len(server.questions) == 1


def test_many_threads_ask_once(server):
    attested = asking(server)
    threads = [Thread(target=attested.levels, args=(NODES,)) for _ in range(5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(server.questions) == 1


def test_a_node_that_is_new_leads_to_a_call_about_all(server):
    attested = asking(server, pause=0)
    attested.levels(["n1"])
    server.levels |= {"n1": "untrusted", "n3": "trusted"}
    assert attested.levels(["n1", "n3"]) == {"n1": "untrusted", "n3": "trusted"}
    assert [question.body["hosts"] for question in server.questions] == [["n1"], ["n1", "n3"]]


@pytest.mark.parametrize(
    ("vtime", "valid_for", "calls"),
    [
        (datetime.now(UTC) - timedelta(hours=2), 3 * 3600, 1),
        (datetime.now(UTC) - timedelta(hours=2), 3600, 2),
        # An hour and a half ago, in a zone where it is later than here.
        (datetime.now(timezone(timedelta(hours=2))) - timedelta(hours=1.5), 3600, 2),
        # The level that was just heard counts all the same, but it is asked for again.
        (datetime(1970, 1, 1, tzinfo=UTC), 60, 2),
        (datetime.now(UTC), 0, 2),
        # What cannot be read is unknown as of now.
        ("yesterday", 60, 1),
        (None, 60, 1),
    ],
)
def test_levels_are_believed_for_a_while(server, vtime, valid_for, calls):
    server.vtime = vtime if vtime is None or isinstance(vtime, str) else vtime.isoformat()
    attested = asking(server, valid_for=valid_for, pause=0)
    expected = "unknown" if vtime == "yesterday" else "trusted"
    for _ in range(2):
        assert attested.levels(NODES)["n1"] == expected
    assert len(server.questions) == calls


def test_a_clock_that_is_ahead_does_not_make_a_level_last(server):
    server.vtime = "2999-01-01T00:00:00Z"
    attested = asking(server, valid_for=0)
    attested.levels(NODES)
    attested.levels(NODES)
    assert len(server.questions) == 2


def test_nodes_that_the_service_does_not_know_do_not_lead_to_a_call_per_request(server):
    del server.levels["n2"]
    attested = asking(server, pause=60)
    for _ in range(3):
        assert attested.levels(NODES) == {"n1": "trusted", "n2": "unknown"}
    assert len(server.questions) == 1
    without_pause = asking(server, pause=0)
    for _ in range(3):
        assert without_pause.levels(NODES) == {"n1": "trusted", "n2": "unknown"}
    assert len(server.questions) == 4


@pytest.mark.parametrize(
    ("text", "moment"),
    [
        ("2001-09-09T01:46:40Z", 1e9),
        ("2001-09-09T01:46:40", 1e9),
        ("2001-09-09T03:46:40+02:00", 1e9),
        ("2001-09-08T20:16:40.500-05:30", 1e9 + 0.5),
        ("Sun Sep  9 01:46:40 2001", 1e9),
        ("Sun Sep 99 01:46:40 2001", None),
        ("0001-01-01T00:00:00+23:59", -62135683140.0),
        ("", None),
        ("x", None),
        (None, None),
        (1e9, None),
    ],
)
def test_times(text, moment):
    assert seconds(text) == moment


# What is said of the nodes when the service cannot be used, and why.
FAILURES = [
    ({"server": "localhost"}, "localhost"),
    ({"server_ca_file": None}, "certificate verify failed"),
    ({"port": 1}, "refused"),
    ({"server": "a..b"}, "label"),
    ({"server": "a\nb"}, "control characters"),
    ({"api_url": "/a\nb"}, "control characters"),
]


@pytest.mark.parametrize(("settings", "cause"), FAILURES)
def test_a_service_that_cannot_be_reached(server, caplog, settings, cause):
    assert asking(server, **settings).levels(NODES) == UNKNOWN
    (message,) = caplog.messages
    assert message.startswith("Attestation service https://")
    assert cause in message
    assert message.endswith(". No node is trusted until it answers")
    assert not server.questions


def test_a_certificate_of_somebody_else_is_refused_unless_it_does_not_matter(
    server, tmp_path, caplog
):
    other = str(an_authority(tmp_path).ca_file)
    assert asking(server, server_ca_file=other).levels(NODES) == UNKNOWN
    assert "certificate verify failed" in caplog.text
    assert not server.questions
    insecure = asking(server, server_ca_file=other, server="localhost", insecure_ssl=True)
    assert insecure.levels(NODES)["n1"] == "trusted"


def test_a_service_that_hangs(server, caplog):
    server.hangs = True
    assert asking(server, timeout=SHORT).levels(NODES) == UNKNOWN
    assert "timed out" in caplog.text


def test_a_service_that_does_not_come_to_an_end(server, caplog):
    server.drips = True
    assert asking(server, timeout=SHORT).levels(NODES) == UNKNOWN
    assert "does not end its answer in time" in caplog.text


def test_a_service_that_says_too_much(server, caplog, monkeypatch):
    monkeypatch.setattr(trust, "MAX_BYTES", 99)
    assert asking(server).levels(NODES) == UNKNOWN
    assert "answers more than 99 bytes" in caplog.text


@pytest.mark.parametrize(
    ("status", "body", "cause"),
    [
        (200, b"nonsense", "answers with something that is not JSON: Expecting value"),
        (200, b"\xff\xfe\xff", "answers with something that is not JSON: "),
        (200, b"[" * 100_000, "answers with something that is not JSON: "),
        (200, b"", "answers with something that is not JSON: Expecting value"),
        (200, b"[]", "answers without a list of hosts"),
        (200, b'{"hosts": {}}', "answers without a list of hosts"),
        (404, b'{"hosts": []}', "answers 404 Not Found"),
        (500, b"", "answers 500 Internal Server Error"),
        (302, b"", "answers 302 Found"),
    ],
)
def test_answers_that_are_none(server, caplog, status, body, cause):
    server.answer, server.headers = (status, body), {"Location": f"http://{ADDRESS}:1/"}
    assert asking(server).levels(NODES) == UNKNOWN
    (message,) = caplog.messages
    assert cause in message


@pytest.mark.parametrize("status", [200, 201, 202])
def test_answers_of_which_a_part_can_be_read(server, caplog, status):
    now = datetime.now(UTC).isoformat()
    good = {"host_name": "n1", "trust_lvl": "trusted", "vtime": now}
    odd = [7, None, {}, {"host_name": ["n2"]}, good | {"host_name": "n9"}]
    server.answer = status, json.dumps({"hosts": [*odd, good]}).encode()
    assert asking(server).levels(NODES) == {"n1": "trusted", "n2": "unknown"}
    odd = [good | {"trust_lvl": 1}, {"host_name": "n2", "trust_lvl": "trusted"}]
    server.answer = status, json.dumps({"hosts": odd}).encode()
    assert asking(server).levels(NODES) == UNKNOWN
    assert not caplog.messages


def test_an_answer_without_content_attests_nothing(server, caplog):
    server.answer = 204, b""
    assert asking(server).levels(NODES) == UNKNOWN
    assert not caplog.messages


def test_a_dead_service_is_left_alone_for_a_while(server):
    server.answer = 500, b""
    attested = asking(server, pause=60)
    for _ in range(3):
        assert attested.levels(NODES) == UNKNOWN
    assert len(server.questions) == 1


def test_failure_is_logged_once_and_so_is_its_end(server, caplog):
    attested = asking(server, valid_for=0, pause=0)
    assert attested.levels(NODES)["n1"] == "trusted"
    with caplog.at_level(logging.INFO, logger="scheduler.trust"):
        server.answer = 500, b""
        for _ in range(3):
            # What was known before is not trusted any longer.
            assert attested.levels(NODES) == UNKNOWN
        server.answer = 404, b""
        attested.levels(NODES)
        server.answer = None
        for _ in range(3):
            assert attested.levels(NODES)["n1"] == "trusted"
    failed, failed_otherwise, recovered = caplog.messages
    assert "answers 500" in failed
    assert "answers 404" in failed_otherwise
    assert recovered.endswith("/PollHosts recovered")


def test_a_cause_is_cut_short(server, caplog):
    server.answer, server.reason = (500, b""), "x" * 9999
    asking(server).levels(NODES)
    assert len(caplog.messages[0]) < 400


def test_addresses_of_ipv6_are_shown_in_brackets():
    service = AttestationService(configured(server="::1", api_url="/"))
    assert service.url == "https://[::1]:8443/PollHosts"


def test_the_configuration_says_where_the_service_is(server, authority, caplog):
    conf = configured(
        server=ADDRESS,
        port=server.port,
        server_ca_file=str(authority.ca_file),
        api_url="/v3",
        auth_blob="blob",
        auth_timeout=0,
    )
    attested = trust.load(conf)
    for _ in range(2):
        assert attested.levels(NODES)["n1"] == "trusted"
    assert [question.path for question in server.questions] == ["/v3/PollHosts"] * 2
    assert server.questions[0].headers["x-auth-blob"] == "blob"
    assert not caplog.messages


def test_doing_without_verification_is_warned_of(server, caplog):
    conf = configured(server=ADDRESS, port=server.port, insecure_ssl=True)
    assert trust.load(conf).levels(NODES)["n1"] == "trusted"
    assert caplog.messages == [
        f"[trusted_computing] attestation_insecure_ssl is on: any server that answers for {ADDRESS}"
        " decides which nodes are trusted"
    ]


def test_without_a_server_nobody_is_asked(caplog):
    conf = configured()
    assert trust.load(conf) is None
    assert not caplog.messages
    conf.set_override("enabled_filters", ["TrustedFilter"], group="filter_scheduler")
    assert trust.load(conf) is None
    assert caplog.messages == [
        "TrustedFilter: no node is trusted without [trusted_computing] attestation_server"
    ]


def test_mistakes_in_the_configuration_are_named(tmp_path):
    broken = tmp_path / "ca.pem"
    broken.write_text("nonsense")
    for path in (broken, tmp_path / "gone.pem"):
        with pytest.raises(PluginError, match=r"_ca_file = '.*pem' in ") as caught:
            trust.load(configured(server="h", server_ca_file=str(path)))
        assert str(path) in str(caught.value)
    with pytest.raises(PluginError, match=r"auth_blob = '\*\*\*' in ") as caught:
        trust.load(configured(server="h", auth_blob="s3cret\nx"))
    assert "s3cret" not in str(caught.value)


def test_only_requests_that_name_a_level_ask_for_it():
    trusted = {"trust:trusted_host": "trusted"}
    asked = []

    def nodenames():
        asked.append(1)
        return NODES

    class Known:
        def levels(self, nodenames):
            return dict.fromkeys(nodenames, "trusted")

    def found(plan=PLAN, attestation=None, **changes):
        return levels_for(a_request(**changes), plan, attestation, nodenames)

    assert found() is None
    assert found(extra_specs={"trust:trusted_host": ""}) is None
    assert found(extra_specs=trusted, plan=Plan((RamFilter(),))) is None
    assert found(extra_specs=trusted, force_hosts=["h1"]) is None
    rebuild = {"_nova_check_type": ["rebuild"]}
    assert found(extra_specs=trusted, scheduler_hints=rebuild) is None
    assert found(extra_specs=trusted) == {}
    assert not asked
    assert found(extra_specs=trusted, attestation=Known()) == dict.fromkeys(NODES, "trusted")
    assert asked


@pytest.fixture
def cloud(database):
    """Return a database with two hosts, of which h2 has less memory."""
    free = {"h1": 8192, "h2": 6144}
    save(database, *(a_node(host, f"n{host[1]}", free_ram_mb=mb) for host, mb in free.items()))
    serve(database, *free)
    return database


def place(destinations, uuid="u1", level="trusted"):
    spec = a_request(extra_specs={"trust:trusted_host": level} if level else {})
    ((found,),) = destinations.select(SelectArguments(spec, [uuid]), RequestContext())
    return found.service_host


def test_a_trusted_host_is_chosen(cloud, server):
    server.levels = {"n1": "untrusted", "n2": "trusted"}
    driver, attested = FilterScheduler(PLAN), asking(server, valid_for=0, pause=0)
    destinations = Destinations(cloud, HostCache(cloud), driver, attestation=attested)
    assert place(destinations, "u0", level="") == "h1"
    assert not server.questions
    assert place(destinations, "u1") == "h2"
    assert place(destinations, "u2", level="untrusted") == "h1"
    assert [question.body["hosts"] for question in server.questions] == [["n1", "n2"]] * 2
    server.levels = {"n1": "trusted", "n2": "untrusted"}
    assert place(destinations, "u3") == "h1"
    server.answer = 500, b""
    with pytest.raises(NoValidHost):
        place(destinations, "u4")
    spec = a_request(extra_specs={"trust:trusted_host": "trusted"})
    _, explained = destinations.rehearse(SelectArguments(spec, ["u5"]), RequestContext())
    refusals = (refusal for each in explained.verdicts for refusal in each.refusals)
    assert [(each.filter, each.reason) for each in refusals] == [
        ("TrustedFilter", "needs trust level 'trusted', attested is 'unknown'")
    ] * 2


def test_no_host_stays_trusted_when_the_service_is_taken_away(cloud, server):
    cache = HostCache(cloud)
    destinations = Destinations(cloud, cache, FilterScheduler(PLAN), attestation=asking(server))
    assert place(destinations) == "h1"
    destinations.change(attestation=None)
    with pytest.raises(NoValidHost):
        place(destinations)


def test_a_node_that_comes_back_is_as_trusted_as_it_was(cloud, server):
    cache = HostCache(cloud)
    destinations = Destinations(cloud, cache, FilterScheduler(PLAN), attestation=asking(server))
    assert place(destinations) == "h1"
    cloud.write(lambda connection: compute_nodes.delete(connection, "h1", ["n1"]))
    assert place(destinations, "u2", level="") == "h2"
    save(cloud, a_node("h1", "n1", free_ram_mb=8192))
    assert place(destinations, "u3") == "h1"
    assert len(server.questions) == 1
