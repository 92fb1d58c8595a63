# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Tests of conf.loading: URLs with ambiguous passwords."""

import pytest
import sqlalchemy as sa
from hypothesis import given
from hypothesis import strategies as st

from conf import loading


@pytest.mark.parametrize(
    ("url", "ambiguous"),
    [
        ("mysql+pymysql://nova:Top@Secret99@host/db", True),
        ("mysql+pymysql://nova:Top@Sec:ret@host/db", True),
        ("mysql+pymysql://nova:Top@Sec/ret@host/db", True),
        ("mysql+pymysql://nova:a@b,c@host/db", True),
        ("mysql+pymysql://nova:Top%40Secret@host/db", False),
        # What is read rightly may stay as it is.
        ("mysql+pymysql://nova:Top/Sec:ret@host/db", False),
        ("mysql+pymysql://host/db", False),
        ("sqlite:////var/lib/a@b@c.sqlite", False),
        ("sqlite://", False),
        ("nonsense", False),
    ],
)
def test_urls_of_databases(url, ambiguous):
    assert loading.is_ambiguous(url) == ambiguous


@given(st.text("aZ0@:/?#,%40[]", min_size=1, max_size=8))
def test_no_part_of_a_password_is_taken_for_the_host_of_a_database(password):
    url = f"mysql+pymysql://nova:{password}@host:3306/db"
    if not loading.is_ambiguous(url):
        read = sa.make_url(url)
        assert (read.host, read.port, read.database) == ("host", 3306, "db")


@pytest.mark.parametrize(
    "url",
    [
        "rabbit://",
        "rabbit://host:5672/",
        "rabbit://nova:secret@host:5672/vhost?ssl=1",
        "rabbit://nova:Sec:ret@host/",
        "rabbit://nova:a%40b@h1:1,nova:c@h2:2/vhost%401",
        "rabbit://nova:a@h1,h2/",
        "rabbit://nova:a@[::1]:5672,nova:b@[::2]:5672/",
        "kombu+memory:///x@y",
    ],
)
def test_urls_of_brokers_that_say_what_they_mean(url):
    assert not loading.is_ambiguous_list(url)
