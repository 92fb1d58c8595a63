# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Nova's fake driver with a host of a real size, whose guests others can see in a file."""

import json
import os
import threading
from pathlib import Path
from typing import Any

import nova.conf
from nova.compute.power_state import RUNNING
from nova.exception import InstanceFaultRollback
from nova.virt import fake, node

CONF = nova.conf.CONF
# Builds are side by side.
_LOCK = threading.Lock()


class RecordedDriver(fake.FakeDriver):
    """Keeps its guests in a file HOST.guests; while there is HOST.failing, all moves fail."""

    vcpus = 64
    memory_mb = 65536
    local_gb = 1000

    def init_host(self, host: str) -> None:
        super().init_host(host)
        # The guests of a real host are there when its compute service is started again.
        for uuid, each in self._guests().items():
            self.instances[uuid] = fake.FakeInstance(each["name"], RUNNING, uuid)

    def get_nodenames_by_uuid(self, refresh: bool = False) -> dict[str, str]:
        # Kept in a file, without which the service does not start a second time.
        return {node.get_local_node_uuid(): CONF.host}

    def get_available_resource(self, nodename: str) -> dict[str, Any]:
        # Nova's own fake has no room for a thin image to grow.
        found: dict[str, Any] = super().get_available_resource(nodename)
        own = {"uuid": node.get_local_node_uuid(), "disk_available_least": self.local_gb}
        return {**found, **own}

    def spawn(self, context: Any, instance: Any, *arguments: Any, **words: Any) -> None:
        _fail_if_told()
        super().spawn(context, instance, *arguments, **words)
        self._keep(instance)

    def destroy(self, context: Any, instance: Any, *arguments: Any, **words: Any) -> None:
        super().destroy(context, instance, *arguments, **words)
        self._drop(instance)

    def migrate_disk_and_power_off(self, *arguments: Any, **words: Any) -> str:
        try:
            _fail_if_told()
        except RuntimeError as error:
            # The guest stays as it was.
            raise InstanceFaultRollback(error) from error
        disks: str = super().migrate_disk_and_power_off(*arguments, **words)
        return disks

    def finish_migration(
        self, context: Any, migration: Any, instance: Any, *rest: Any, **words: Any
    ) -> None:
        _fail_if_told()
        super().finish_migration(context, migration, instance, *rest, **words)
        self._keep(instance)

    def confirm_migration(self, context: Any, migration: Any, instance: Any, network: Any) -> None:
        super().confirm_migration(context, migration, instance, network)
        self._drop(instance)

    def _keep(self, instance: Any) -> None:
        names = ("uuid", "name", "display_name", "vcpus", "memory_mb", "root_gb")
        with _LOCK:
            guest = {each: instance[each] for each in names}
            self._write({**self._guests(), instance.uuid: guest})

    def _drop(self, instance: Any) -> None:
        with _LOCK:
            self._write({u: each for u, each in self._guests().items() if u != instance.uuid})

    def _guests(self) -> dict[str, Any]:
        path = Path(f"{CONF.host}.guests")
        guests: dict[str, Any] = json.loads(path.read_text()) if path.exists() else {}
        return guests

    def _write(self, guests: dict[str, Any]) -> None:
        new = Path(f"{CONF.host}.new")
        new.write_text(json.dumps(guests))
        os.replace(new, f"{CONF.host}.guests")


def _fail_if_told() -> None:
    if Path(f"{CONF.host}.failing").exists():
        raise RuntimeError("everything fails here")
