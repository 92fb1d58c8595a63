# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Tests of scheduler.drivers.multi."""

import pytest

from scheduler.decision.pipeline import Plan, Request
from scheduler.drivers import BaseDriver
from scheduler.drivers.multi import MultiScheduler, kind_of
from tests.builders import a_request
from tests.hosts import a_host, a_table

NOTHING = {"vcpus": 0, "memory_mb": 0, "root_gb": 0}


class Part(BaseDriver):
    """A driver that answers with its own name."""

    def __init__(self, name, view_max_age=None):
        super().__init__(Plan())
        self.name = name
        self.view_max_age = view_max_age

    def decide(self, hosts, request):
        return self.name, hosts, request


def a_multi(*ages):
    parts = dict(zip(("compute", "volume", "default"), ages or (None,) * 3, strict=True))
    return MultiScheduler(Plan(), **{name: Part(name, age) for name, age in parts.items()})


@pytest.mark.parametrize(
    ("figures", "kind"),
    [
        ({"vcpus": 1, "memory_mb": 512, "root_gb": 10}, "compute"),
        ({"vcpus": 1}, "compute"),
        ({"memory_mb": 1, "root_gb": 10}, "compute"),
        ({"root_gb": 1}, "volume"),
        ({"ephemeral_gb": 1}, "volume"),
        ({"swap": 1}, "volume"),
        ({}, "default"),
    ],
)
def test_a_request_goes_to_the_part_for_what_it_asks(figures, kind):
    spec = a_request(**NOTHING | figures)
    assert kind_of(spec) == kind
    hosts, request = a_table(a_host()), Request(spec, ["u"])
    assert a_multi().decide(hosts, request) == (kind, hosts, request)


@pytest.mark.parametrize(
    ("ages", "expected"),
    [
        ((60, 30, 45), 30),
        ((60, 0, 45), 0),
        # One that wants the configured age could want any.
        ((60, None, 45), None),
        ((None, None, None), None),
    ],
)
def test_the_view_is_as_fresh_as_the_most_demanding_part_wants_it(ages, expected):
    assert a_multi(*ages).view_max_age == expected
