# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""The zone of an aggregate."""

from inventory.objects.aggregate import Aggregate


def test_the_zone_is_in_the_metadata():
    assert Aggregate(metadata={"availability_zone": "az1"}).availability_zone == "az1"
    assert Aggregate().availability_zone is None
