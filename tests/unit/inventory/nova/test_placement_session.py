# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""How Placement is reached by Nova's own section [placement], and what is said when it is not."""

import logging
import socket
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier
from typing import Any

import pytest
from oslo_config import cfg

from conf import opts
from inventory.nova.placement import PlacementClient
from inventory.nova.placement_errors import (
    PlacementConflict,
    PlacementError,
    PlacementMisconfigured,
    PlacementRefused,
    PlacementUnavailable,
)
from tests.fixtures.canned_http import CannedServer, serving
from tests.fixtures.daemons.ports import LOOPBACK, free_ports
from tests.fixtures.daemons.process import PATIENCE

PASSWORD = "correct-horse"
TOKEN = "very-secret-token"
VERSIONS = {"versions": [{"min_version": "1.0", "max_version": "1.39", "id": "v1.0"}]}


@pytest.fixture
def server() -> Iterator[CannedServer]:
    with serving() as found:
        found.answer("GET", "/", VERSIONS)
        found.answer("GET", "/resource_providers", {"resource_providers": []})
        yield found


@pytest.fixture
def client(tmp_path: Path, server: CannedServer) -> Iterator[PlacementClient]:
    found = a_client(tmp_path, token(server.url))
    yield found
    found.close()


def token(url: str) -> str:
    return f"auth_type = admin_token\ntoken = {TOKEN}\nendpoint = {url}"


def a_conf(directory: Path, section: str) -> cfg.ConfigOpts:
    path = directory / "nova.conf"
    path.write_text(f"[placement]\n{section}\n")
    conf = cfg.ConfigOpts()
    opts.register(conf)
    conf([f"--config-file={path}"], project="berthmaster")
    return conf


def a_client(directory: Path, section: str) -> PlacementClient:
    return PlacementClient(a_conf(directory, section))


def refusal(client: PlacementClient) -> str:
    """Return the line with which a question about all providers fails."""
    with pytest.raises(PlacementError) as caught:
        client.providers()
    client.close()
    assert "\n" not in str(caught.value)
    assert str(caught.value) == f"{caught.value.text}; {caught.value.cure}"
    return str(caught.value)


def an_error(status: int, detail: str, code: str = "placement.undefined_code") -> Any:
    error = {"status": status, "title": "t", "detail": detail, "code": code, "request_id": "r"}
    return {"errors": [error]}


def keystone(server: CannedServer, **endpoints: str) -> str:
    """Let the server be Keystone, too, with these endpoints; return the section for it."""
    base = f"{server.url}/identity"
    version = {"id": "v3.14", "status": "stable", "links": [{"rel": "self", "href": f"{base}/v3/"}]}
    server.answer("GET", "/identity", {"versions": {"values": [version]}}, 300)
    catalog = [
        {"interface": interface, "url": url, "region": "one", "region_id": "one", "id": interface}
        for interface, url in endpoints.items()
    ]
    service = {"type": "placement", "name": "placement", "id": "s", "endpoints": catalog}
    domain = {"id": "default", "name": "Default"}
    found = {
        "methods": ["password"],
        "expires_at": "2126-01-01T00:00:00.000000Z",
        "issued_at": "2026-01-01T00:00:00.000000Z",
        "user": {"id": "u", "name": "nova", "domain": domain},
        "project": {"id": "p", "name": "service", "domain": domain},
        "roles": [{"id": "r", "name": "service"}],
        "catalog": [service],
    }
    server.answer("POST", "/identity/v3/auth/tokens", {"token": found}, 201, X_Subject_Token=TOKEN)
    return f"""
auth_type = password
auth_url = {base}
username = nova
password = {PASSWORD}
project_name = service
user_domain_name = Default
project_domain_name = Default
region_name = one"""


def test_a_token_goes_along_with_the_microversion_that_nova_asks_with(
    client: PlacementClient, server: CannedServer
) -> None:
    assert client.providers() == []
    (asked,) = server.requests
    assert asked.headers["X-Auth-Token"] == TOKEN
    assert asked.headers["OpenStack-API-Version"] == "placement 1.36"


def test_the_root_is_asked_without_a_microversion(
    client: PlacementClient, server: CannedServer
) -> None:
    assert client.version().maximum == "1.39"
    assert "OpenStack-API-Version" not in server.requests[0].headers


def test_none_needs_no_account(tmp_path: Path, server: CannedServer) -> None:
    client = a_client(tmp_path, f"auth_type = none\nendpoint_override = {server.url}")
    assert client.providers() == []
    client.close()


def test_options_may_be_in_a_section_of_their_own(tmp_path: Path, server: CannedServer) -> None:
    section = f"auth_section = account\n[account]\n{token(server.url)}"
    client = a_client(tmp_path, section)
    assert client.providers() == []
    client.close()


def test_a_password_opens_the_endpoint_of_the_catalog(tmp_path: Path, server: CannedServer) -> None:
    """That of nova's own choice, internal before public, and with one token for all requests."""
    client = a_client(tmp_path, keystone(server, public="http://192.0.2.1/", internal=server.url))
    assert [client.providers(), client.providers()] == [[], []]
    client.close()
    signed_in = [each for each in server.requests if each.path.endswith("/auth/tokens")]
    assert len(signed_in) == 1


def test_neither_password_nor_token_is_logged(
    tmp_path: Path, server: CannedServer, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.DEBUG):
        client = a_client(tmp_path, keystone(server, internal=server.url))
        client.providers()
        server.answer("GET", "/resource_providers", an_error(500, "broken"), 500)
        message = refusal(client)
    assert "resource_providers" in caplog.text
    assert not [each for each in (PASSWORD, TOKEN) if each in caplog.text + message]


def test_threads_share_a_client_and_its_connections(
    client: PlacementClient, server: CannedServer
) -> None:
    number = 20
    together = Barrier(number)

    def ask(_: int) -> int:
        together.wait(PATIENCE)
        return len([client.providers() for _ in range(10)])

    with ThreadPoolExecutor(number) as pool:
        assert sum(pool.map(ask, range(number))) == 200
    assert len(server.connections) <= number


@pytest.mark.parametrize(
    ("section", "message"),
    [
        ("", "option [placement] auth_type is not set; copy section [placement] from the"),
        ("auth_type = passwrd", "passwrd could not be found; choose a kind of account that"),
        ("auth_type = password\npassword = secret", "auth_url"),
        ("auth_type = none\ntimeout = soon", "option [placement] timeout = 'soon' in "),
        ("auth_type = none\nvalid_interfaces = outer", "'outer' is not a valid value"),
        ("auth_type = none\nkeyfile = $nothing", "option [placement] keyfile in "),
        ("auth_type = $nothing", "option [placement] auth_type in "),
        ("auth_type = password\npassword = pa$$$ss", "option [placement] password in "),
    ],
)
def test_a_section_that_cannot_be_used_is_refused(
    tmp_path: Path, section: str, message: str
) -> None:
    with pytest.raises(PlacementMisconfigured) as caught:
        a_client(tmp_path, section)
    assert message in str(caught.value)
    assert "pa$" not in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_missing_library_is_named_with_its_cure(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "keystoneauth1.loading", None)
    with pytest.raises(PlacementMisconfigured, match=r"pip install 'berthmaster\[nova\]'"):
        a_client(tmp_path, "auth_type = none")


def test_a_version_of_nova_s_other_services_does_not_matter(
    tmp_path: Path, server: CannedServer
) -> None:
    """Nova does not read it here, so it may be anything."""
    client = a_client(tmp_path, f"{token(server.url)}\nversion = 2.1\nmin_version = 3")
    assert client.providers() == []
    client.close()


def test_where_nothing_listens(tmp_path: Path) -> None:
    (port,) = free_ports(1)
    url = f"http://nova:{PASSWORD}@{LOOPBACK}:{port}/placement"
    assert refusal(a_client(tmp_path, token(url))) == (
        f"Placement is not available: GET http://{LOOPBACK}:{port}/placement/resource_providers:"
        " Connection refused; check section [placement], and that Placement runs"
    )


def test_where_nobody_answers(tmp_path: Path) -> None:
    with socket.create_server((LOOPBACK, 0)) as silent:
        url = f"http://{LOOPBACK}:{silent.getsockname()[1]}"
        client = a_client(tmp_path, f"{token(url)}\ntimeout = 1")
        assert f"GET {url}/resource_providers: no answer within 1 s; check" in refusal(client)


def test_keystone_is_away(tmp_path: Path, server: CannedServer) -> None:
    (port,) = free_ports(1)
    section = keystone(server).replace(server.url, f"http://{LOOPBACK}:{port}")
    message = refusal(a_client(tmp_path, section))
    assert message.startswith("Placement is not available: no token or endpoint from Keystone: ")
    assert f"{LOOPBACK}:{port}/identity" in message
    assert "; check auth_url" in message


def test_keystone_refuses_the_account(tmp_path: Path, server: CannedServer) -> None:
    section = keystone(server)
    error = {"error": {"code": 401, "message": "Invalid credentials.", "title": "Unauthorized"}}
    server.answer("POST", "/identity/v3/auth/tokens", error, 401)
    message = refusal(a_client(tmp_path, section))
    assert "no token or endpoint from Keystone: Invalid credentials. (HTTP 401)" in message


def test_the_catalog_has_no_placement(tmp_path: Path, server: CannedServer) -> None:
    message = refusal(a_client(tmp_path, keystone(server, admin=server.url)))
    assert "endpoint for placement service in one region not found; check auth_url" in message


def test_no_endpoint_at_all(tmp_path: Path) -> None:
    message = refusal(a_client(tmp_path, "auth_type = none"))
    assert (
        "no endpoint: neither section [placement] nor the service catalog has an endpoint of"
        " Placement; set" in message
    )


@pytest.mark.parametrize(
    ("status", "body", "message"),
    [
        (
            401,
            an_error(401, "Unknown token"),
            "HTTP 401: Unknown token; Placement does not know the account of section",
        ),
        (
            403,
            an_error(403, "Not you"),
            "HTTP 403: Not you; the account of section [placement] lac",
        ),
        (
            404,
            an_error(404, "Nothing"),
            "HTTP 404: Nothing; the answer is not from Placement: check",
        ),
        (404, b"<h1>Not here</h1>", "HTTP 404: Not Found; the answer is not from Placement: check"),
        (406, an_error(406, "No"), "HTTP 406: No; this release of Placement is too old: upgrade"),
        (500, an_error(500, "a\n  b"), "HTTP 500: a b; see the log of Placement"),
        (503, b"<h1>busy</h1>", "HTTP 503: Service Unavailable; see the log of Placement"),
        (200, b"<h1>Welcome</h1>", "the answer is not one of Placement's; check [placement]"),
        (200, {"hosts": []}, "the answer is not one of Placement's; check [placement]"),
        (200, [], "the answer is not one of Placement's; check [placement]"),
    ],
)
def test_what_is_not_the_answer_of_a_placement_that_serves_us(
    client: PlacementClient, server: CannedServer, status: int, body: Any, message: str
) -> None:
    server.answer("GET", "/resource_providers", body, status)
    found = refusal(client)
    assert f"Placement is not available: GET {server.url}/resource_providers: {message}" in found


def test_a_refused_request_says_why(client: PlacementClient, server: CannedServer) -> None:
    path = "/resource_providers/p1/inventories"
    server.answer("GET", path, an_error(404, "No resource provider with uuid p1 found"), 404)
    with pytest.raises(PlacementRefused) as caught:
        client.inventories("p1")
    assert caught.value.status == 404
    assert str(caught.value) == (
        f"Placement refused GET {server.url}{path} (HTTP 404): No resource provider with uuid p1"
        " found; check what the reason names, and the log of Placement"
    )


@pytest.mark.parametrize(
    ("code", "is_concurrent", "cure"),
    [
        ("placement.concurrent_update", True, "read the allocations again and repeat the request"),
        ("placement.undefined_code", False, "choose another host"),
    ],
)
def test_conflicts_are_told_apart(
    client: PlacementClient, server: CannedServer, code: str, is_concurrent: bool, cure: str
) -> None:
    server.answer("POST", "/allocations", an_error(409, "Conflict", code), 409)
    with pytest.raises(PlacementConflict, match=cure) as caught:
        client.post_allocations({})
    assert caught.value.is_concurrent is is_concurrent


def test_an_error_inside_of_the_document_is_no_conflict(
    client: PlacementClient, server: CannedServer
) -> None:
    server.answer("POST", "/allocations", an_error(400, "JSON does not validate"), 400)
    with pytest.raises(PlacementRefused, match="JSON does not validate"):
        client.post_allocations({"c1": {}})


def test_a_server_that_went_away_is_asked_again_when_it_is_back(tmp_path: Path) -> None:
    with serving() as server:
        server.answer("GET", "/", VERSIONS)
        client = a_client(tmp_path, token(server.url))
        client.version()
        server.answer("GET", "/", an_error(500, "stopped"), 500)
        with pytest.raises(PlacementUnavailable):
            client.version()
        server.answer("GET", "/", VERSIONS)
        assert client.version().is_enough
        client.close()
