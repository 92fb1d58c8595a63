# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Which CPUs of a host guests may use, and which of its memory pages they may not."""

import re
from collections.abc import Iterable, Mapping, Set
from dataclasses import dataclass
from typing import Any

from oslo_utils import strutils

from compute_agent.virt.driver import DriverError, DriverMisconfigured

SHARED = "[compute] cpu_shared_set"
DEDICATED = "[compute] cpu_dedicated_set"
# What both were until 20.0.
PIN_SET = "[DEFAULT] vcpu_pin_set"
# More than Linux and libvirt know; it keeps a typing error from filling the memory.
HIGHEST_CPU = 65_535
# Nova knows neither 1G nor 1 GB.
_SHORT = re.compile(r"([0-9]{1,9})\s*([KMG])i?B?")
KIB = 1024


class CpusNotOnline(DriverError):
    """An option names CPUs that the host does not have or has switched off."""

    def __init__(self, option: str, cpus: Set[int], may_be_off: bool = False) -> None:
        problem = "the host does not have" if may_be_off else "are not online"
        cure = "" if may_be_off else "bring them online, or "
        super().__init__(
            f"option {option} names CPUs that {problem}: {shown(cpus)}; {cure}change the option"
            " and restart the agent"
        )
        self.option = option
        self.cpus = cpus


@dataclass(frozen=True, slots=True)
class HostCpus:
    """The CPUs that a host has, and those of them that are online."""

    present: frozenset[int]
    online: frozenset[int]


@dataclass(frozen=True, slots=True)
class CpuSets:
    """The CPUs that are set apart for guests; None stands for a set that is not configured.

    shared_option is the option that shared comes from. dedicated_may_be_off says that dedicated
    CPUs are switched off while no guest has them. The methods raise CpusNotOnline.
    """

    shared: frozenset[int] | None = None
    dedicated: frozenset[int] | None = None
    shared_option: str = SHARED
    dedicated_may_be_off: bool = False

    def floating(self, cpus: HostCpus) -> Set[int]:
        """Return the CPUs for guests that float.

        Empty where only a dedicated set is configured: what is in no set is the host's.
        """
        if self.shared is not None:
            if not self.shared <= cpus.online:
                raise CpusNotOnline(self.shared_option, self.shared - cpus.online)
            return self.shared
        return frozenset() if self.dedicated is not None else cpus.online

    def pinned(self, cpus: HostCpus) -> Set[int]:
        """Return the CPUs for guests that are pinned.

        Without options of today these are the ones that others float on, as before 20.0. A shared
        set alone leaves none: Nova's compute service refuses pinned guests then.
        """
        if self.dedicated is not None:
            usable = cpus.present if self.dedicated_may_be_off else cpus.online
            if not self.dedicated <= usable:
                missing = self.dedicated - usable
                raise CpusNotOnline(DEDICATED, missing, self.dedicated_may_be_off)
            return self.dedicated
        is_of_today = self.shared is not None and self.shared_option == SHARED
        return frozenset() if is_of_today else self.floating(cpus)

    def vcpus(self, cpus: HostCpus) -> int:
        """Return how many CPUs the host offers.

        A row has one figure for it and one for what is in use, and all guests count in the latter.
        """
        return len(self.floating(cpus) | self.pinned(cpus))


def load(conf: Any) -> CpuSets:
    """Return the configured sets; raises DriverMisconfigured with one line."""
    texts = {
        SHARED: conf.compute.cpu_shared_set,
        DEDICATED: conf.compute.cpu_dedicated_set,
        PIN_SET: conf.vcpu_pin_set,
    }
    given = {option: _cpus(option, text) for option, text in texts.items() if text}
    shared, dedicated = given.get(SHARED), given.get(DEDICATED)
    if PIN_SET in given:
        if len(given) > 1:
            others = " or ".join(option for option in given if option != PIN_SET)
            why = f"cannot be combined with {others}, which replaced it; unset one of these options"
            raise _refused(PIN_SET, texts[PIN_SET], why)
        return CpuSets(given[PIN_SET], shared_option=PIN_SET)
    if shared and dedicated and shared & dedicated:
        both = f"{SHARED} = {texts[SHARED]!r} names CPUs {shown(shared & dedicated)} too"
        raise _refused(DEDICATED, texts[DEDICATED], f"{both}; a CPU can be in one set only")
    if given and conf.reserved_host_cpus:
        why = (
            f"cannot be combined with {' and '.join(given)}: the remaining CPUs are reserved for"
            " the host; unset this option"
        )
        raise _refused("[DEFAULT] reserved_host_cpus", conf.reserved_host_cpus, why)
    power_managed = conf.libvirt.cpu_power_management
    return CpuSets(shared, dedicated, dedicated_may_be_off=power_managed)


def reserved_pages(conf: Any) -> dict[tuple[int, int], int]:
    """Return how many pages are kept from guests, by cell and size in KiB.

    Raises DriverMisconfigured with one line.
    """
    reserved: dict[tuple[int, int], int] = {}
    for each in filter(None, conf.reserved_huge_pages or ()):
        value = ",".join(f"{name}:{text}" for name, text in each.items())
        try:
            place, pages = _reserve({name: str(text) for name, text in each.items()})
            if place in reserved:
                raise ValueError("the same size of the same cell is given twice")
        except ValueError as error:
            raise _refused("[DEFAULT] reserved_huge_pages", value, str(error)) from error
        reserved[place] = pages
    return reserved


def parse(text: str) -> frozenset[int]:
    """Return the CPUs that a text such as 0-3,^2,8 names; raises ValueError.

    What ^ stands before is left out, wherever it comes. Numbers are written as Nova takes them.
    """
    named: set[int] = set()
    excepted: set[int] = set()
    for item in filter(None, map(str.strip, text.split(","))):
        is_excepted = item.startswith("^")
        first, last = _range(item, item.removeprefix("^"))
        if first > last:
            raise ValueError(f"{item!r} ends before it begins")
        if last > HIGHEST_CPU and not is_excepted:
            raise ValueError(f"{item!r} is more than the highest CPU, {HIGHEST_CPU}")
        (excepted if is_excepted else named).update(range(first, min(last, HIGHEST_CPU) + 1))
    return frozenset(named - excepted)


def _range(item: str, text: str) -> tuple[int, int]:
    first, dash, last = text.partition("-")
    try:
        return int(first), int(last if dash else first)
    except ValueError:
        raise ValueError(f"{item!r} is neither a CPU nor a range of them") from None


def shown(cpus: Iterable[int]) -> str:
    """Return CPUs as the shortest text that parse() reads."""
    ranges: list[list[int]] = []
    for cpu in sorted(cpus):
        if ranges and ranges[-1][-1] == cpu - 1:
            ranges[-1][1:] = [cpu]
        else:
            ranges.append([cpu])
    return ",".join("-".join(map(str, each)) for each in ranges)


def _cpus(option: str, text: str) -> frozenset[int]:
    try:
        cpus = parse(text)
    except ValueError as error:
        raise _refused(option, text, str(error)) from error
    if not cpus:
        raise _refused(option, text, "names no CPU; unset the option to have no such set")
    return cpus


def _reserve(entry: Mapping[str, str]) -> tuple[tuple[int, int], int]:
    """Return ((cell, size in KiB), number of pages); raises ValueError.

    What Nova reads without an effect, or with that of more pages than there are, is refused. Nova
    ignores further keys.
    """
    if not entry.keys() >= {"node", "size", "count"}:
        raise ValueError("needs node, size and count, as in node:0,size:2048,count:64")
    numbers = {}
    for name in ("node", "count"):
        try:
            numbers[name] = int(entry[name])
        except ValueError:
            raise ValueError(f"{name} {entry[name]!r} is not a number") from None
        if numbers[name] < 0:
            raise ValueError(f"{name} {entry[name]!r} is less than 0")
    return (numbers["node"], _size_kib(entry["size"])), numbers["count"]


def _size_kib(text: str) -> int:
    try:
        size = int(text) * KIB
    except ValueError:
        short = _SHORT.fullmatch(text)
        try:
            with_unit = f"{short[1]}{short[2]}B" if short else text
            size = strutils.string_to_bytes(with_unit, return_int=True)
        except ValueError:
            size = 0
    if size <= 0 or size % KIB:
        raise ValueError(f"size {text!r} is neither in KiB nor like 2MB or 1GB")
    return size // KIB


def _refused(option: str, value: object, why: str) -> DriverMisconfigured:
    return DriverMisconfigured(f"option {option} = {value!r}: {why}")
