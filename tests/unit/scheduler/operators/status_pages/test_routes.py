# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Tests of the addresses of pages: what is found, what is not, and what is said then."""

import gzip

import pytest

from scheduler.operators.status_pages.messages import PageRequest
from scheduler.operators.status_pages.routes import VIEWS, Site
from scheduler.operators.status_pages.source import Source
from tests.databases import a_conf
from tests.fixtures.keeping import configured


@pytest.mark.parametrize("view", VIEWS)
def test_every_view_is_a_page_and_json(view, facts, page):
    status, found = facts(f"/{view}/")
    assert status == "200"
    assert f"<title>{found['title']} - Berthmaster</title>" in page(f"/{view}/")


def test_the_first_address_leads_to_the_fleet(site):
    answer = site.answer(PageRequest("/"))
    assert (answer.status, dict(answer.headers)["Location"]) == ("302 Found", "hosts/")


def test_a_view_without_its_slash_keeps_its_parameters(site):
    answer = site.answer(PageRequest("/decisions", "outcome=refused"))
    assert dict(answer.headers)["Location"] == "decisions/?outcome=refused"


def test_style_and_icon_are_served_with_their_types(site):
    style, icon = "text/css; charset=utf-8", "image/svg+xml"
    paths = {"/assets/style.css": style, "/assets/icon.svg": icon, "/favicon.ico": icon}
    for path, kind in paths.items():
        answer = site.answer(PageRequest(path))
        assert (answer.status, dict(answer.headers)["Content-Type"]) == ("200 OK", kind)
    assert site.answer(PageRequest("/assets/../../routes.py")).status == "404 Not Found"


@pytest.mark.parametrize(
    ("path", "nearest"),
    [
        ("/hots/", "hosts"),
        ("/hosts/compute-00001x", "compute-00001"),
        ("/decisions/?flavor=m1.smal", "m1.small"),
        ("/decisions/2?host=compute-00001x", "compute-00001"),
    ],
)
def test_what_is_unknown_is_404_with_the_nearest_name(facts, page, path, nearest):
    path, _, query = path.partition("?")
    status, found = facts(path, query)
    assert status == "404"
    assert nearest in found["nearest"]
    assert f"<bdi>{nearest}</bdi></a>" in page(path, query)


@pytest.mark.parametrize(
    "address",
    [
        "/decisions/?before=x",
        "/decisions/?outcome=x",
        "/decisions/?flavor=9999999999999,1,1",
        # Python reads no number with so many digits.
        f"/decisions/?flavor={'9' * 5000},1,1",
        "/decisions/2?instance=-1",
        "/hosts/?group=x",
        "/hosts/?page=99999999999999999999",
        "/capacity/?flavor=1,2",
        "/capacity/?flavor=0,0,0",
        "/conflicts/?hours=0",
    ],
)
def test_a_wrong_parameter_is_400_and_named(facts, address):
    path, _, query = address.partition("?")
    status, found = facts(path, query)
    assert status == "400"
    assert found["error"].casefold().startswith(query.partition("=")[0])


@pytest.mark.parametrize("path", ["/decisions/no-such", "/decisions/999", "/nothing/at/all"])
def test_what_nothing_is_like_is_404(facts, path):
    assert facts(path)[0] == "404"


def test_a_database_that_is_away_is_a_page_with_503(tmp_path):
    conf = a_conf(connection="mysql+pymysql://nobody:secret@127.0.0.1:1/none")
    answer = Site(Source(conf)).answer(PageRequest("/hosts/"))
    assert answer.status == "503 Service Unavailable"
    text = answer.body.decode()
    assert "<h1>The database does not answer</h1>" in text
    assert "secret" not in text


def test_a_database_without_tables_names_the_cure(tmp_path):
    conf = a_conf(connection=f"sqlite:///{tmp_path}/empty.sqlite")
    answer = Site(Source(conf)).answer(PageRequest("/hosts/"))
    assert answer.status == "503 Service Unavailable"
    assert b"berthmaster db sync" in answer.body


def test_a_page_that_nobody_waits_for_is_not_made(fleet):
    site = Site(Source(configured(fleet.config)))
    answer = site.answer(PageRequest("/decisions/2", until=0.0))
    assert answer.status == "503 Service Unavailable"
    assert dict(answer.headers)["Retry-After"] == "5"


def test_whoever_reads_gzip_gets_it(site):
    plain = site.answer(PageRequest("/hosts/"))
    packed = site.answer(PageRequest("/hosts/", may_compress=True))
    assert dict(packed.headers)["Content-Encoding"] == "gzip"
    assert "Content-Encoding" not in dict(plain.headers)
    assert gzip.decompress(packed.body)[:15] == plain.body[:15] == b"<!DOCTYPE html>"
