# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""The grammar of the option [pci] device_spec, which is Nova's, and which devices a spec fits."""

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from oslo_utils import strutils

from compute_agent.virt.driver import PciDevice

# The parts of an address: how many digits they are written with and their greatest value. Nova
# leaves out devices with a longer domain, and so do we.
_PARTS = {"domain": (4, 0xFFFF), "bus": (2, 0xFF), "slot": (2, 0x1F), "function": (1, 0x7)}
_ADDRESS = re.compile(r"([0-9a-f]{4}):([0-9a-f]{2}):([0-9a-f]{2})\.([0-7])")
_HEXADECIMAL = re.compile("[0-9a-fA-F]+")
_GREATEST_ID = 0xFFFF
# Requests can name these, so a pool has them as tags.
_SWITCHES = ("trusted", "remote_managed", "live_migratable")
_KEYS = (
    *("vendor_id", "product_id", "address", "devname", "physical_network", *_SWITCHES),
    # What Nova's libvirt driver and Placement know, and no pool.
    *("managed", "one_time_use", "resource_class", "traits"),
)
# A part of an address has four characters at most. What would let the search in one take long,
# or is of no use for one: repeated groups, empty alternatives, references back, looks around.
_MAX_PATTERN_LENGTH = 64
_MAX_REPETITIONS = 4
_REPETITION = re.compile("[*+?{]")
_ODD = re.compile(r"[^0-9a-fA-F.*+?|()\[\]{},^$\\dw-]|\(\?|\)[*+?{]|\(\||\|\||\|\)|\\[^dw]|\[\[|--")


class DeviceSpecError(Exception):
    """A value of [pci] device_spec that cannot be used; the text is one line for the operator."""

    def __init__(self, value: str, problem: str) -> None:
        super().__init__(f"option [pci] device_spec = {' '.join(value.split())!r}: {problem}")
        self.value = value
        self.problem = problem


@dataclass(frozen=True, slots=True)
class AddressPattern:
    """What domain, bus, slot and function of an address have to match, each as a whole."""

    parts: tuple[re.Pattern[str], ...]

    def matches(self, address: str) -> bool:
        """Return whether all parts of an address match."""
        found = _ADDRESS.fullmatch(address)
        return found is not None and all(
            part.fullmatch(text) for part, text in zip(self.parts, found.groups(), strict=True)
        )

    @property
    def is_single(self) -> bool:
        """Return whether it stands for one address only."""
        return all(_HEXADECIMAL.fullmatch(part.pattern) for part in self.parts)


ANY_ADDRESS = AddressPattern((re.compile(".*"),) * len(_PARTS))


@dataclass(frozen=True, slots=True)
class DeviceSpec:
    """Some devices that may be given to guests, and the tags that requests find them by.

    None as an id or as devname stands for any.
    """

    vendor_id: str | None = None
    product_id: str | None = None
    address: AddressPattern = ANY_ADDRESS
    devname: str | None = None
    tags: Mapping[str, str | None] = field(default_factory=dict)

    def fits(self, device: PciDevice, physical: PciDevice | None) -> bool:
        """Return whether a device is one of them; physical is its physical function."""
        if self.vendor_id not in (None, device.vendor_id):
            return False
        if self.product_id not in (None, device.product_id):
            return False
        # The other side of such a card configures virtual functions only.
        if device.kind == "type-PF" and self.tags.get("remote_managed") == "true":
            return False
        if self.devname is not None:
            return self.devname in (device.interface, physical.interface if physical else None)
        return self.address.matches(device.address) or (
            device.parent is not None
            and self.address.is_single
            and self.address.matches(device.parent)
        )


def parse(values: Iterable[str]) -> tuple[DeviceSpec, ...]:
    """Return the specs in all values of the option, in their order; raises DeviceSpecError."""
    return tuple(spec for value in values if value.strip() for spec in _parsed(value))


def _parsed(value: str) -> Sequence[DeviceSpec]:
    try:
        document = json.loads(value)
    except (ValueError, RecursionError) as error:
        raise DeviceSpecError(value, f"the value is not JSON: {error}") from error
    try:
        return [_spec(each) for each in (document if isinstance(document, list) else [document])]
    except ValueError as mistake:
        raise DeviceSpecError(value, str(mistake)) from mistake


def _spec(given: object) -> DeviceSpec:
    if not isinstance(given, dict):
        raise ValueError(f"{json.dumps(given)} is not a JSON object")
    # Taken for a tag, as Nova does, a misspelt address would offer all devices of the host.
    for key in given:
        if key not in _KEYS:
            raise ValueError(f"unknown key {json.dumps(key)} (known are {', '.join(_KEYS)})")
    address, devname = given.get("address"), given.get("devname")
    if address and devname:
        raise ValueError("address and devname cannot be used together")
    _switch(given, "managed")
    if _switch(given, "one_time_use") == "true":
        raise ValueError(
            "one_time_use needs a record of used devices, which Nova keeps in Placement: remove"
            " this key"
        )
    return DeviceSpec(
        vendor_id=_id(given, "vendor_id"),
        product_id=_id(given, "product_id"),
        # Empty ones are none.
        address=_address(address) if address else ANY_ADDRESS,
        devname=_text(given, "devname") if devname else None,
        tags=dict(_tags(given)),
    )


def _tags(given: Mapping[str, object]) -> Iterator[tuple[str, str | None]]:
    if "physical_network" in given:
        # null is what requests for a network without a physical one ask for.
        is_none = given["physical_network"] is None
        yield "physical_network", None if is_none else _text(given, "physical_network")
    for key in _SWITCHES:
        if given.get(key) is not None:
            yield key, _switch(given, key)


def _text(given: Mapping[str, object], key: str) -> str | None:
    if key not in given:
        return None
    text = given[key]
    if not isinstance(text, str) or not text.strip():
        raise ValueError(f"{key} {json.dumps(text)} is not a text, or is empty")
    return text.strip()


def _switch(given: Mapping[str, object], key: str) -> str:
    """Return "true" or "false", the form in which requests ask for it."""
    try:
        is_on = strutils.bool_from_string(given.get(key) or False, strict=True)
    except ValueError:
        wrong = json.dumps(given[key])
        raise ValueError(f'{key} {wrong} is neither "true" nor "false"') from None
    return "true" if is_on else "false"


def _id(given: Mapping[str, object], key: str) -> str | None:
    text = _text(given, key)
    if text is None or text == "*":
        return None
    number = _hexadecimal(text)
    if number is None or number > _GREATEST_ID:
        raise ValueError(f'{key} "{text}" is neither up to four hexadecimal digits nor "*"')
    return f"{number:04x}"


def _hexadecimal(text: str) -> int | None:
    """Return a number in one of the spellings that Nova takes; None for another or below 0."""
    try:
        number = int(text, 16)
    except ValueError:
        return None
    return number if number >= 0 else None


def _address(given: object) -> AddressPattern:
    if isinstance(given, str):
        texts = _plain(given)
    elif isinstance(given, dict):
        for name in given:
            if name not in _PARTS:
                raise ValueError(f"unknown part {json.dumps(name)} of the address")
        texts = [_expression(name, given.get(name, ".*")) for name in _PARTS]
    else:
        raise ValueError(
            f"address {json.dumps(given)} is neither a text nor an object with the parts of an"
            " address"
        )
    return AddressPattern(tuple(re.compile(text, re.IGNORECASE) for text in texts))


def _plain(address: str) -> list[str]:
    """Return expressions for [[[domain:]bus:]slot][.[function]]; what is missing is anything."""
    front, _, function = address.partition(".")
    if function and not function.strip():
        raise ValueError(f'address "{address}" ends in a blank function')
    parts = front.split(":")
    if len(parts) > len(_PARTS) - 1:
        raise ValueError(f'address "{address}" is not of the form domain:bus:slot.function')
    parts = [""] * (len(_PARTS) - 1 - len(parts)) + parts + [function]
    return [_plain_part(name, part.strip()) for name, part in zip(_PARTS, parts, strict=True)]


def _plain_part(name: str, part: str) -> str:
    if part in ("", "*"):
        return ".*"
    digits, greatest = _PARTS[name]
    number = _hexadecimal(part)
    if number is None:
        raise ValueError(
            f'{name} "{part}" of the address is neither a hexadecimal number nor "*"'
            " (an expression needs an address with named parts)"
        )
    if number > greatest:
        raise ValueError(f'{name} "{part}" of the address is above {greatest:x}')
    return f"{number:0{digits}x}"


def _expression(name: str, text: object) -> str:
    """Return a regular expression after a check that it is one, a quick one, and of use."""
    if not isinstance(text, str):
        raise ValueError(f"{name} {json.dumps(text)} of the address is not a text")
    what = f"{name} {json.dumps(text[:_MAX_PATTERN_LENGTH])} of the address"
    if len(text) > _MAX_PATTERN_LENGTH or len(_REPETITION.findall(text)) > _MAX_REPETITIONS:
        raise ValueError(
            f"{what} is longer than {_MAX_PATTERN_LENGTH} characters"
            f" or has more than {_MAX_REPETITIONS} repetitions"
        )
    if _ODD.search(text):
        raise ValueError(
            f"{what} may only have hexadecimal digits, sets of them, alternatives"
            " and repetitions of a single character"
        )
    try:
        pattern = re.compile(text, re.IGNORECASE)
    except (re.error, OverflowError) as error:
        raise ValueError(f"{what} is not a regular expression: {error}") from error
    digits, greatest = _PARTS[name]
    if not any(pattern.fullmatch(f"{value:0{digits}x}") for value in range(greatest + 1)):
        raise ValueError(f"{what} matches none from {0:0{digits}x} to {greatest:x} as a whole")
    return text
