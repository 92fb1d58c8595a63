# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Ask for a host for each of two instances."""

import sys
from uuid import uuid4

from conf.daemon import process

# Before anything imports oslo.messaging, which would load eventlet where it is installed.
process.refuse_import("eventlet")
process.start_backend("threading")

from oslo_config import cfg  # noqa: E402

from conf import loading  # noqa: E402
from scheduler.client.scheduler_client import SchedulerClient  # noqa: E402
from scheduler.objects.flavor_and_image import Flavor  # noqa: E402
from scheduler.objects.request_spec import RequestSpec  # noqa: E402
from scheduler.wire.context import RequestContext  # noqa: E402
from scheduler.wire.errors import NoValidHost  # noqa: E402

loading.read(cfg.CONF, "berthmaster", sys.argv[1:], "1")
client = SchedulerClient(cfg.CONF)
uuids = [str(uuid4()), str(uuid4())]
spec = RequestSpec(Flavor(vcpus=2, memory_mb=2048, root_gb=10), num_instances=2)
try:
    answer = client.select_destinations(RequestContext(is_admin=True), spec, uuids)
except NoValidHost as error:
    sys.exit(str(error))
finally:
    client.close()
for uuid, (chosen, *_) in zip(uuids, answer, strict=True):
    print(uuid, chosen.service_host, chosen.nodename)
