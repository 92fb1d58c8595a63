# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""The bag of image properties."""

import copy
import pickle

import pytest

from scheduler.objects.flavor_and_image import ImageMetaProps
from tests.builders import an_image


def test_a_property_is_read_in_every_way_that_filters_use():
    properties = an_image(hw_architecture="x86_64").properties
    assert properties.hw_architecture == "x86_64"
    assert properties["hw_architecture"] == "x86_64"
    assert properties.get("hw_architecture") == "x86_64"
    assert "hw_architecture" in properties
    assert properties.obj_attr_is_set("hw_architecture")
    assert list(properties) == list(properties.keys()) == ["hw_architecture"]
    assert dict(properties.items()) == {"hw_architecture": "x86_64"}
    assert len(properties) == 1


def test_a_property_that_is_not_there_is_none_but_not_present():
    properties = an_image().properties
    assert properties.hw_architecture is None
    assert properties.get("hw_architecture") is None
    assert properties.get("hw_architecture", "i686") == "i686"
    assert "hw_architecture" not in properties
    assert not properties.obj_attr_is_set("hw_architecture")
    with pytest.raises(KeyError):
        properties["hw_architecture"]


def test_no_properties_are_still_properties():
    assert ImageMetaProps()
    assert len(ImageMetaProps()) == 0


def test_properties_are_equal_by_value_and_survive_copies():
    properties = ImageMetaProps({"os_type": "linux"})
    assert copy.deepcopy(properties) == properties
    assert pickle.loads(pickle.dumps(properties)) == properties
    assert properties != ImageMetaProps()
    assert properties != {"os_type": "linux"}
    assert repr(properties) == "ImageMetaProps({'os_type': 'linux'})"
