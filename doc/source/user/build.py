# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Start a guest on one of the hosts, on another one if that fails."""

import subprocess
import sys
from uuid import uuid4

from conf.daemon import process

# Before anything imports oslo.messaging, which would load eventlet where it is installed.
process.refuse_import("eventlet")
process.start_backend("threading")

from oslo_config import cfg  # noqa: E402

from conf import loading  # noqa: E402
from scheduler.client.backoff import RetryPolicy  # noqa: E402
from scheduler.client.conductor import BuildFailed, Conductor  # noqa: E402
from scheduler.client.scheduler_client import SchedulerClient  # noqa: E402
from scheduler.objects.flavor_and_image import Flavor  # noqa: E402
from scheduler.objects.request_spec import RequestSpec  # noqa: E402
from scheduler.objects.selection import Selection  # noqa: E402
from scheduler.wire.context import RequestContext  # noqa: E402
from scheduler.wire.errors import SchedulerFailure  # noqa: E402

uuid = str(uuid4())


def build(chosen: Selection) -> None:
    """Run what starts a guest on a host; this is yours."""
    try:
        subprocess.run(["start-guest", chosen.service_host, uuid], check=True)
    except (OSError, subprocess.CalledProcessError) as error:
        raise BuildFailed(f"{chosen.service_host}: {error}") from error


loading.read(cfg.CONF, "berthmaster", sys.argv[1:], "1")
client = SchedulerClient(cfg.CONF)
policy = RetryPolicy(max_attempts=cfg.CONF.scheduler.max_attempts, deadline=120.0)
spec = RequestSpec(Flavor(vcpus=2, memory_mb=2048, root_gb=10))
try:
    chosen = Conductor(client, policy).build(RequestContext(is_admin=True), spec, uuid, build)
except SchedulerFailure as error:
    sys.exit(str(error))
finally:
    client.close()
print(uuid, chosen.service_host, chosen.nodename)
