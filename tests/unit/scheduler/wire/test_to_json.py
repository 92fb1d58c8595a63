# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0

import json
import math
from datetime import datetime
from types import MappingProxyType

import numpy as np

from inventory.objects.numa import InstanceNUMACell
from scheduler.hosts.limits import GroupLimit
from scheduler.objects.flavor_and_image import ImageMetaProps
from scheduler.wire.to_json import json_value


def test_everything_becomes_json():
    found = json_value(
        {
            "flags": (True, None),
            1: np.int64(2),
            "numbers": [np.float64(1.5), math.nan, -math.inf, np.bool_(True)],
            "cell": InstanceNUMACell(0, 5, cpuset={3, 1}),
            "limits": MappingProxyType({"server_group": GroupLimit(2)}),
            "when": datetime(2026, 1, 2),
            "properties": ImageMetaProps({"a": 1}),
            "class": GroupLimit,
        }
    )
    assert json.loads(json.dumps(found, allow_nan=False)) == found
    assert found["flags"] == [True, None]
    assert found["1"] == 2
    assert found["numbers"] == [1.5, None, None, True]
    assert found["cell"]["cpuset"] == [1, 3]
    assert found["limits"] == {"server_group": {"most": 2}}
    assert found["when"] == "2026-01-02 00:00:00"
    assert found["properties"] == {"a": 1}
