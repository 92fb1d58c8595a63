# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Ask for a host for each of two instances: ask.py [CONFIGURATION FILE ...]."""

import sys
from uuid import uuid4

from scheduler.client import Flavor, NoValidHost, RequestContext, RequestSpec, connect

uuids = [str(uuid4()), str(uuid4())]
spec = RequestSpec(Flavor(vcpus=2, memory_mb=2048, root_gb=10), num_instances=2)
try:
    with connect(*sys.argv[1:]) as scheduler:
        answer = scheduler.select_destinations(RequestContext(), spec, uuids)
except NoValidHost as error:
    sys.exit(str(error))
for uuid, (chosen, *_) in zip(uuids, answer, strict=True):
    print(uuid, chosen.service_host, chosen.nodename)
