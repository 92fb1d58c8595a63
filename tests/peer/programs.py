# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""The programs of a whole Nova cloud, run unmodified in Nova's own environment.

Run as `python -m tests.peer.programs PROGRAM ARGUMENTS`: "compute", "conductor", "scheduler" and
"schema" with the arguments of Nova's own programs, "api" and "placement" with the port to serve on.
What Nova would need Keystone, Glance and Neutron for is answered by a page of code.
"""

import datetime
import json
import os
import sys
import types
from collections.abc import Callable, Iterable, Mapping
from typing import Any

Start = Callable[[str, list[tuple[str, str]]], object]
Application = Callable[[Mapping[str, Any], Start], Iterable[bytes]]
USER = {"HTTP_X_USER_ID": "user1", "HTTP_X_PROJECT_ID": "project1", "HTTP_X_ROLES": "admin,member"}
USER |= {"HTTP_X_AUTH_TOKEN": "token", "HTTP_X_SERVICE_CATALOG": "[]"}
IMAGE = {"status": "active", "container_format": "bare", "disk_format": "raw", "size": 1}
IMAGE |= {"min_ram": 0, "min_disk": 0, "visibility": "public", "tags": [], "name": "image"}
IMAGE |= {"created_at": "2026-01-01T00:00:00Z", "updated_at": "2026-01-01T00:00:00Z"}

NEW_IMAGE = "9d7a6c2e-5b0f-4a37-8a35-8f3f6a5f7a11"


def signed_in(_config: object, **_options: object) -> Callable[[Application], Application]:
    """Return a filter that lets everybody in as the same administrator."""

    def wrap(application: Application) -> Application:
        def wrapped(environ: Mapping[str, Any], start: Start) -> Iterable[bytes]:
            return application({**environ, **USER}, start)

        return wrapped

    return wrap


def other_services(environ: Mapping[str, Any], start: Start) -> list[bytes]:
    """Answer as an image service with one image, and as a network service without any network."""
    path = environ["PATH_INFO"]
    name = path.rpartition("/")[2]
    found: dict[str, Any] = {name.removesuffix(".json"): []}
    if "/images/" in path:
        found = IMAGE | {"id": name}
    elif environ["REQUEST_METHOD"] == "POST" and name == "images":
        found = IMAGE | {"id": NEW_IMAGE}
    elif "/schemas/" in path:
        found = {"name": name, "properties": {each: {} for each in (*IMAGE, "id")}}
    start("200 OK", [("Content-Type", "application/json")])
    return [json.dumps(found).encode()]


def api(port: str) -> None:
    """Serve Nova's API."""
    from nova.wsgi import osapi_compute

    _serve(osapi_compute.application, port)


def placement(port: str) -> None:
    """Serve Placement below /placement, and what stands for other services everywhere else."""
    from paste.urlmap import URLMap
    from placement.wsgi import api as placement_api

    pages = URLMap()
    pages["/placement"] = placement_api.application
    pages["/"] = other_services
    # With more threads it has been seen to give away more than there is.
    _serve(pages, port, threads=1)


def compute(*arguments: str) -> None:
    """Run a compute service with the driver of tests/peer/fake_host.py."""
    import nova.cmd.compute  # patches what is imported below

    from tests.peer import fake_host

    # Nova looks for drivers below its own package only.
    found = types.ModuleType("nova.virt.recorded")
    found.RecordedDriver = fake_host.RecordedDriver  # type: ignore[attr-defined]
    sys.modules[found.__name__] = found
    sys.argv = ["nova-compute", *arguments]
    nova.cmd.compute.main()


def conductor(*arguments: str) -> None:
    """Run the conductor."""
    import nova.cmd.conductor

    sys.argv = ["nova-conductor", *arguments]
    nova.cmd.conductor.main()


def scheduler(*arguments: str) -> None:
    """Run Nova's own scheduler."""
    import nova.cmd.scheduler

    sys.argv = ["nova-scheduler", *arguments]
    nova.cmd.scheduler.main()


def schema(*arguments: str) -> None:
    """Make the tables of Nova, one cell beside the empty one, and its hosts."""
    from tests.peer import nova_schema

    nova_schema.make(arguments)


def _set_clock_back(seconds: int) -> None:
    """Let what Nova stamps here look so many seconds old."""
    from oslo_utils import timeutils

    now = timeutils.utcnow
    behind = datetime.timedelta(seconds=seconds)
    timeutils.utcnow = lambda with_timezone=False: now(with_timezone) - behind


def _serve(application: Any, port: str, threads: int = 4) -> None:
    import waitress

    waitress.serve(application, host="127.0.0.1", port=int(port), threads=threads)


def main() -> None:
    name, *arguments = sys.argv[1:]
    # Nova reads arguments of its own, even as an application.
    sys.argv = [name]
    # Before Nova takes the clock for the stamps of its tables.
    if seconds := int(os.environ.get("SECONDS_BEHIND", 0)):
        _set_clock_back(seconds)
    programs = (api, placement, compute, conductor, scheduler, schema)
    {each.__name__: each for each in programs}[name](*arguments)


if __name__ == "__main__":
    main()
