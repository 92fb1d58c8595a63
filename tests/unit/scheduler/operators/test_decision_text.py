# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0

import pytest

from inventory.objects.pci_and_network import InstancePCIRequest, InstancePCIRequests
from scheduler.operators.decision_text import _devices
from tests.builders import a_request

GPU, NIC = {"vendor_id": "10de", "product_id": "2204"}, {"physical_network": "storage"}


@pytest.mark.parametrize(
    ("wanted", "text"),
    [
        ([], ""),
        ([(4, [GPU])], ", 4 of vendor_id=10de product_id=2204"),
        (
            [(1, [GPU, NIC]), (2, [NIC])],
            ", 1 of vendor_id=10de product_id=2204 or"
            " physical_network=storage, 2 of physical_network=storage",
        ),
    ],
)
def test_devices_are_a_part_of_the_request(wanted, text):
    requests = [InstancePCIRequest(count, kinds) for count, kinds in wanted]
    spec = a_request(pci_requests=InstancePCIRequests(requests=requests))
    assert _devices(spec) == text
