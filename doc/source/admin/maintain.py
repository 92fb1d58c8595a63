# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Put a host into maintenance: maintain.py AGENT HOST [OPTION OF THE DAEMONS ...]."""

import sys
from uuid import uuid4

from conf.daemon import process

# Before anything imports oslo.messaging, which would load eventlet where it is installed.
process.refuse_import("eventlet")
process.start_backend("threading")

from oslo_config import cfg  # noqa: E402

from conf import loading  # noqa: E402
from scheduler.client.agent_client import AgentClient  # noqa: E402
from scheduler.wire.context import RequestContext  # noqa: E402
from scheduler.wire.errors import SchedulerFailure  # noqa: E402

agent, host, *options = sys.argv[1:]
loading.read(cfg.CONF, "berthmaster", options, "1")
client = AgentClient(cfg.CONF)
caller = RequestContext(f"req-{uuid4()}", user_name="night-shift", is_admin=True)
arguments = {"host": host, "mode": True, "reason": "firmware"}
try:
    switches = client.call(caller, agent, "host_maintenance_mode", timeout=10.0, **arguments)
except SchedulerFailure as error:
    sys.exit(str(error))
finally:
    client.close()
print(switches["status"], switches["disabled_reason"])
