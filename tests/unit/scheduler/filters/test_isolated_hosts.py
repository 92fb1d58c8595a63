# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Tests of scheduler.filters.isolated_hosts."""

import pytest

from scheduler.filters.isolated_hosts import IsolatedHostsFilter
from tests.builders import a_request, an_image
from tests.hosts import a_host, a_table

ISOLATED = "image 'A' is isolated, but the host is none of {}"
RESERVED = "is kept for {}, {!r} is none of these images"
NO_IMAGE = "is kept for {}, the request names no image"
NO, ONE = "0 isolated images", "1 isolated image"


def rule(images, hosts, restrict=True):
    return IsolatedHostsFilter(isolated_images=images, isolated_hosts=hosts, restrict=restrict)


def a_request_for(image):
    return a_request(image=None if image is None else an_image(id=image))


@pytest.mark.parametrize(
    ("images", "hosts", "restrict", "host", "image", "reason"),
    [
        (["A"], ["iso1"], True, "ISO1", "A", ISOLATED.format("1 isolated host")),
        (["A"], ["iso1"], True, "iso1", None, NO_IMAGE.format(ONE)),
        ([], ["iso1"], True, "iso1", "A", RESERVED.format(NO, "A")),
        ([], ["iso1"], False, "iso1", "A", None),
        (["A"], [], True, "h", "A", ISOLATED.format("0 isolated hosts")),
        (["A"], [], True, "h", "B", None),
        ([], [], True, "h", "A", None),
        # The matrix: isolated and other images, listed and other hosts.
        (["A"], ["iso1"], True, "iso1", "A", None),
        (["A"], ["iso1"], True, "iso1", "B", RESERVED.format(ONE, "B")),
        (["A"], ["iso1"], True, "h", "A", ISOLATED.format("1 isolated host")),
        (["A"], ["iso1"], True, "h", "B", None),
        (["A"], ["iso1"], False, "iso1", "A", None),
        (["A"], ["iso1"], False, "iso1", "B", None),
        (["A"], ["iso1"], False, "h", "A", ISOLATED.format("1 isolated host")),
        (["A"], ["iso1"], False, "h", "B", None),
        (["A", "B"], ["iso1", "iso2"], True, "h", "A", ISOLATED.format("2 isolated hosts")),
        (["A"], ["iso1"], True, "iso1", "a", RESERVED.format(ONE, "a")),
        (["A"], ["iso1"], True, "h", None, None),
        (["A"], ["iso1"], False, "iso1", None, None),
        (["A"], ["iso1"], False, "h", None, None),
    ],
)
def test_worked_cases(images, hosts, restrict, host, image, reason):
    each, spec = rule(images, hosts, restrict), a_request_for(image)
    state = a_host(host)
    passes = each.host_passes(state, spec)
    assert each.mask(state.table, spec).tolist() == [passes]
    assert passes == (reason is None)
    assert passes or each.reason(state, spec) == reason


def test_the_image_of_a_volume_has_no_id_and_is_not_isolated():
    spec = a_request(image=an_image(id=None))
    assert not rule(["A"], ["iso1"]).host_passes(a_host("iso1"), spec)
    assert rule(["A"], ["iso1"]).reason(a_host("iso1"), spec) == NO_IMAGE.format(ONE)
    assert rule(["A"], ["iso1"]).host_passes(a_host("h"), spec)


def test_all_nodes_of_an_isolated_host_are_isolated():
    hosts = a_table(a_host("iso", "n1"), a_host("h"), a_host("iso", "n2"))
    each = rule(["A"], ["iso", "gone"])
    assert each.mask(hosts, a_request_for("A")).tolist() == [True, False, True]
    assert each.mask(hosts, a_request_for("B")).tolist() == [False, True, False]
    # After the options were changed.
    assert rule(["A"], ["h"]).mask(hosts, a_request_for("A")).tolist() == [False, True, False]


@pytest.mark.parametrize(
    ("hosts", "restrict", "image", "applies"),
    [
        (["iso1"], True, "A", True),
        (["iso1"], True, "B", True),
        (["iso1"], False, "A", True),
        (["iso1"], False, "B", False),
        ([], True, "A", True),
        ([], True, "B", False),
    ],
)
def test_it_is_left_out_where_every_host_passes(hosts, restrict, image, applies):
    assert rule(["A"], hosts, restrict).applies(a_request_for(image)) == applies


def test_by_default_nothing_is_isolated():
    assert not IsolatedHostsFilter().applies(a_request())
    assert IsolatedHostsFilter.restrict


def test_when_it_is_asked():
    assert IsolatedHostsFilter.run_filter_once_per_request
    assert IsolatedHostsFilter.RUN_ON_REBUILD
