# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Tests of scheduler.weighers.image_properties, with the figures of behaviour reference 2.3."""

import numpy as np
import pytest

from scheduler.decision.weighing import weigh_hosts
from scheduler.objects.instance import Instance
from scheduler.weighers.image_properties import ImagePropertiesWeigher
from tests.builders import a_request, an_image
from tests.hosts import a_host, a_table, in_aggregates

REQUESTED = {"os_distro": "windows", "hw_machine_type": "q35"}
OPTION = "[filter_scheduler] image_props_weight_setting"


def instances(*images):
    return {
        f"u{i}": Instance(uuid=f"u{i}", image_properties=properties)
        for i, properties in enumerate(images)
    }


def the_hosts(**of_first):
    """Return hosts with two, one and no instance that resembles what is requested."""
    return a_table(
        a_host("h1", instances=instances({"os_distro": "windows"}, REQUESTED), **of_first),
        a_host("h2", instances=instances({"os_distro": "linux", "hw_machine_type": "q35"})),
        a_host("h3", instances=instances(None)),
    )


def totals(table, weigher, spec=None):
    spec = a_request(image=an_image(**REQUESTED)) if spec is None else spec
    return weigh_hosts(table, spec, [weigher], np.arange(table.size)).totals.tolist()


@pytest.mark.parametrize(
    ("settings", "multiplier", "raw", "expected"),
    [
        ([], 1.0, [3, 1, 0], [1, 1 / 3, 0]),
        (["os_distro=2", "hw_machine_type=-1"], 1.0, [3, -1, 0], [1, 0, 0.25]),
        ([], -1.0, [3, 1, 0], [-1, -1 / 3, 0]),
        # Nova does not even count then; here an aggregate may switch it on, as a test below shows.
        ([], 0.0, [3, 1, 0], [0, 0, 0]),
        (["os_distro=2", "hw_machine_type=-1"], 0.0, [3, -1, 0], [0, 0, 0]),
        # The later of two counts, and properties that are not listed do not.
        (["os_distro=5", "os_distro=1"], 1.0, [2, 0, 0], [1, 0, 0]),
        (["os_version=1"], 1.0, [0, 0, 0], [0, 0, 0]),
    ],
)
def test_worked_cases(settings, multiplier, raw, expected):
    weigher = ImagePropertiesWeigher(multiplier=multiplier, image_props_weight_setting=settings)
    spec = a_request(image=an_image(**REQUESTED))
    assert weigher.weigh(the_hosts(), spec).tolist() == raw
    assert totals(the_hosts(), weigher) == pytest.approx(expected)


def test_an_aggregate_can_switch_it_on():
    # In Nova it cannot: with a configured multiplier of 0 all hosts weigh 0.
    table = the_hosts(aggregates=in_aggregates("image_props_weight_multiplier", ["2"]))
    assert totals(table, ImagePropertiesWeigher()) == [2, 0, 0]


def test_typed_values_are_compared_as_text():
    table = a_table(
        a_host("h1", instances=instances({"hw_cpu_cores": "2", "hw_boot_menu": "True"})),
        a_host("h2", instances=instances({"hw_cpu_cores": "4"})),
        a_host("h3"),
    )
    spec = a_request(image=an_image(hw_cpu_cores=2, hw_boot_menu=True, traits_required=["a"]))
    assert totals(table, ImagePropertiesWeigher(multiplier=1.0), spec) == [1, 0, 0]


@pytest.mark.parametrize("image", [None, an_image()])
def test_without_an_image_or_its_properties_it_does_not_apply(image):
    weigher, spec = ImagePropertiesWeigher(multiplier=1.0), a_request(image=image)
    assert not weigher.applies(spec)
    assert weigher.weigh(the_hosts(), spec).tolist() == [0, 0, 0]


def test_a_setting_that_cannot_be_read_is_named_and_does_not_let_the_others_count():
    table = the_hosts()
    weigher = ImagePropertiesWeigher(multiplier=1.0, image_props_weight_setting=["os_distro"])
    assert totals(table, weigher) == [0, 0, 0]
    assert list(table.warnings) == [
        f"{OPTION} has 'os_distro', which is not of the form name=ratio and is ignored"
    ]
