# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Makes the databases of a Nova cloud, as nova-manage does, in one process."""

from collections.abc import Sequence

from nova import monkey_patch

monkey_patch.patch(backend="threading")

import nova.conf  # noqa: E402 - nothing else of Nova comes before the line above
from nova import config, context, objects  # noqa: E402
from nova.db import migration  # noqa: E402
from oslo_config import cfg  # noqa: E402

CELL = "00000000-0000-0000-0000-0000000000c1"


def make(arguments: Sequence[str]) -> None:
    """Make tables, both cells, and the mapping of the hosts that are named.

    Cells are entered with the URLs that they are going to have.
    """
    conf = nova.conf.CONF
    names = ("later-cell0", "later-cell1", "later-transport-url")
    conf.register_cli_opts([cfg.MultiStrOpt("compute-host"), *map(cfg.StrOpt, names)])
    config.parse_args(["schema", *arguments], default_config_files=[])
    objects.register_all()
    migration.db_sync(database="api")
    migration.db_sync(database="main")
    admin = context.get_admin_context()
    cells = (
        (objects.CellMapping.CELL0_UUID, "cell0", "none:///", conf.later_cell0),
        (CELL, "cell1", conf.later_transport_url, conf.later_cell1),
    )
    for uuid, name, transport_url, database_url in cells:
        mapping = objects.CellMapping(admin, uuid=uuid, name=name, transport_url=transport_url)
        mapping.database_connection = database_url
        mapping.create()
    for host in conf.compute_host:
        objects.HostMapping(admin, host=host, cell_mapping=mapping).create()
