# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Options with a grammar of their own mean to the agent what they mean to nova-compute."""

import json
import random
from functools import cache
from types import SimpleNamespace
from typing import Any

from oslo_config import types

from compute_agent import cpu_sets, device_spec
from compute_agent.device_spec import DeviceSpecError
from compute_agent.virt.driver import DriverMisconfigured, PciDevice
from tests.fixtures.code_of_nova import ask_nova

DRAWS = 3000
NUMBERS = ["0", "1", "2", "3", "7", "10", "+1", "+10", "1_0", "01", " 2 ", "-1", "", "x", "0x1"]
SIZES = ["2048", "4", "+4", "2MB", "2Mb", "16Mb", "0.5GB", "1TB", "1TiB", "1Gib"]
SIZES += ["2MBit", ".5G", "1.5MB", "8Kbit", "2kB", "1e3", "1_024", "2048KB", "odd"]
SIZES += ["", "8192b", "8192B", "+1GB", "2gB", "64KiB"]
IDS = ["8086", "0x8086", "0X8086", "00008086", "154C", "+154c", " 154c", "80_86", "*", "", "x"]
IDS += ["18086", "0b1", "8086 "]
PARTS = ["", "*", "0", "00", "0000", "3b", "3B", "0x3b", "+3b", " 3b ", "003b", "x", "1f", "20"]
PARTS += ["3b*", "10000", "7", "8", "0_1"]
KNOWN = [
    PciDevice(f"{domain}:{bus}:{slot}.{function}", vendor, product)
    for domain in ("0000", "0001")
    for bus in ("00", "3b")
    for slot in ("00", "01", "1f")
    for function in range(3)
    for vendor, product in (("8086", "154c" if function else "10ed"),)
]


def a_set(chance: random.Random) -> str:
    """Return a set of CPUs in which much may be wrong."""
    items = []
    for _ in range(chance.choice([0, 1, 2, 3])):
        ends = [chance.choice(NUMBERS) for _ in range(chance.choice([1, 1, 2, 2, 3]))]
        items.append(chance.choice(["", "", "", "^", "^ ", " "]) + "-".join(ends))
    return ",".join(items)


def reserves(chance: random.Random) -> list[str]:
    entry = {
        "node": chance.choice([*NUMBERS[:9], "x", " 1 "]),
        "size": chance.choice(SIZES),
        "count": chance.choice([*NUMBERS[:10], "64", "1.5"]),
    }
    if chance.random() < 0.1:
        del entry[chance.choice([*entry])]
    more = {"cell": "1", "comment": "for DPDK", "": "x"}
    if chance.random() < 0.2:
        name = chance.choice([*more])
        entry[name] = more[name]
    items = [*entry.items()]
    chance.shuffle(items)
    return [chance.choice([",", ", "]).join(f"{name}:{text}" for name, text in items)]


def a_spec(chance: random.Random) -> str:
    spec: dict[str, Any] = {}
    for key in ("vendor_id", "product_id"):
        if chance.random() < 0.4:
            spec[key] = chance.choice(IDS)
    if chance.random() < 0.6:
        parts = [chance.choice(PARTS) for _ in range(chance.choice([1, 2, 3, 3, 3, 4]))]
        spec["address"] = ":".join(parts) + chance.choice(
            ["", ".", ".*", ".0", ".1", ".8", ". ", ". 1"]
        )
    if chance.random() < 0.1:
        spec["address"] = chance.choice(["", None, " ", {}, [], 5, "."])
    if chance.random() < 0.1:
        spec["devname"] = chance.choice(["", None])
    for key in ("managed", "live_migratable", "one_time_use"):
        if chance.random() < 0.1:
            spec[key] = chance.choice(["no", "false", False, None, "odd"])
    if chance.random() < 0.1:
        spec["physical_network"] = chance.choice(["physnet1", None])
    if chance.random() < 0.1:
        spec[chance.choice(["resource_class", "traits"])] = chance.choice(["X", "", None, 5])
    return json.dumps(
        chance.choice([spec, [spec], [spec], 5, "a"]) if chance.random() < 0.2 else spec
    )


SETS, RESERVES, SPECS = (
    [draw(random.Random(number)) for number in range(DRAWS)] for draw in (a_set, reserves, a_spec)
)


@cache
def of_nova() -> dict[str, list[Any]]:
    known = [
        {"address": each.address, "vendor_id": each.vendor_id, "product_id": each.product_id}
        for each in KNOWN
    ]
    words = {"cpus": SETS, "pages": RESERVES, "devices": SPECS, "known": known}
    found: dict[str, list[Any]] = ask_nova("grammars", words)
    return found


def cpus(text: str) -> list[int] | None:
    try:
        return sorted(cpu_sets.parse(text))
    except ValueError:
        return None


def pages(texts: list[str]) -> list[list[int]] | None:
    read = types.Dict()
    try:
        conf = SimpleNamespace(reserved_huge_pages=[read(text) for text in texts])
        found = cpu_sets.reserved_pages(conf)
    except (ValueError, DriverMisconfigured):
        return None
    return [[node, size, count] for (node, size), count in found.items()]


def devices(text: str) -> list[str] | None:
    try:
        specs = device_spec.parse([text])
    except DeviceSpecError:
        return None
    return [each.address for each in KNOWN if any(spec.fits(each, None) for spec in specs)]


def is_senseless(found: list[list[Any]] | None) -> bool:
    """Return whether Nova reserves what no host has, or less than nothing."""
    return found is not None and any(
        node < 0 or size <= 0 or count < 0 or size % 1 for node, size, count in found
    )


def test_sets_of_cpus() -> None:
    pairs = list(zip(SETS, of_nova()["cpus"], strict=True))
    assert sum(found is not None for _, found in pairs) > DRAWS / 4
    differing = [(text, found, cpus(text)) for text, found in pairs if cpus(text) != found]
    assert not differing, differing[:5]


def test_reserved_pages() -> None:
    pairs = list(zip(RESERVES, of_nova()["pages"], strict=True))
    taken = [(texts, found) for texts, found in pairs if found is not None]
    assert len(taken) > DRAWS / 4
    differing = [
        (texts, found, pages(texts))
        for texts, found in pairs
        if pages(texts) != (None if is_senseless(found) else found)
    ]
    assert not differing, differing[:5]


def test_device_specs() -> None:
    pairs = list(zip(SPECS, of_nova()["devices"], strict=True))
    taken = [found for _, found in pairs if found]
    assert len(taken) > DRAWS / 8
    differing = [(text, found, devices(text)) for text, found in pairs if devices(text) != found]
    assert not differing, (len(differing), differing[:8])
