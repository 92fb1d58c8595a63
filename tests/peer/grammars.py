# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Prints what Nova makes of texts in options that have a grammar of their own.

Reads {"cpus": texts of sets, "pages": lists of reserved_huge_pages, "devices": texts of
device_spec, "known": devices} as JSON. Prints for each text null if Nova refuses it, else the CPUs,
the reserved pages by cell and KiB, or the addresses of the known devices that fit. It runs in the
environment of Nova.
"""

import json
import sys
from collections.abc import Callable
from typing import Any

from nova import config, exception
from nova.pci import whitelist
from nova.virt import hardware
from oslo_config import types


def cpus(text: str) -> list[int]:
    return sorted(hardware.parse_cpu_spec(text))


def pages(texts: list[str]) -> list[list[Any]]:
    read = types.Dict()
    hardware.CONF.set_override("reserved_huge_pages", [read(text) for text in texts])
    found = hardware.numa_get_reserved_huge_pages()
    return [[node, size, count] for node, each in found.items() for size, count in each.items()]


def devices(text: str, known: list[dict[str, Any]]) -> list[str]:
    found = whitelist.Whitelist([text])
    return [each["address"] for each in known if found.device_assignable(each)]


def answer(ask: Callable[..., Any], *arguments: Any) -> Any:
    try:
        return ask(*arguments)
    # Some mistakes Nova has not thought of; its service does not start all the same.
    except (exception.NovaException, ValueError, TypeError, AttributeError):
        return None


def main() -> None:
    config.parse_args(["nova-compute"], default_config_files=[])
    given = json.load(sys.stdin)
    found = {
        "cpus": [answer(cpus, each) for each in given["cpus"]],
        "pages": [answer(pages, each) for each in given["pages"]],
        "devices": [answer(devices, each, given["known"]) for each in given["devices"]],
    }
    json.dump(found, sys.stdout)


if __name__ == "__main__":
    main()
