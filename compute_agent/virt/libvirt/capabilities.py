# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""What the capabilities of a libvirt host say about its CPU and the guests it can run."""

import json
from dataclasses import dataclass
from typing import Any
from xml.etree import ElementTree

from compute_agent.virt.driver import DriverAnswerUnusable

QUESTION = "getCapabilities"


@dataclass(frozen=True, slots=True)
class Capabilities:
    """The two columns that come from the capabilities.

    cpu is the XML element of the host's CPU, to be expanded by libvirt; None where it names no
    model, since libvirt refuses that.
    """

    cpu_info: dict[str, Any]
    supported_instances: tuple[tuple[str, str, str], ...]
    cpu: str | None

    def cpu_info_json(self, expanded: str | None = None) -> str:
        """Return the CPU as JSON, the same text for the same CPU in every process.

        expanded is the CPU element with the features that its model stands for spelled out.
        """
        info = dict(self.cpu_info)
        if expanded is not None:
            features = _features(_parse(expanded, "baselineCPU"))
            info["features"] = sorted({*features} or {*info["features"]})
        return json.dumps(info)


def parse(xml: str) -> Capabilities:
    """Return what getCapabilities() says; raises DriverAnswerUnusable."""
    root = _parse(xml, QUESTION)
    cpu = root.find("host/cpu")
    if cpu is None:
        raise DriverAnswerUnusable(QUESTION, "there is no host/cpu in it")
    info: dict[str, Any] = {name: cpu.findtext(name) for name in ("arch", "model", "vendor")}
    info["topology"] = _topology(cpu, len(root.findall("host/topology/cells/cell")))
    limit = cpu.find("maxphysaddr")
    if limit is not None:
        info["maxphysaddr"] = {"mode": limit.get("mode"), "bits": _number(limit.get("bits"))}
    info["features"] = sorted(set(_features(cpu)))
    # libvirt knows the features of the ARM models less well than the kernel reports them.
    expandable = info["model"] is not None and info["arch"] != "aarch64"
    return Capabilities(
        cpu_info=info,
        supported_instances=_supported(root),
        cpu=ElementTree.tostring(cpu, encoding="unicode") if expandable else None,
    )


def _topology(cpu: ElementTree.Element, cells: int) -> dict[str, int | None]:
    found = cpu.find("topology")
    attributes = found.attrib if found is not None else {}
    numbers = {name: _number(attributes.get(name)) for name in ("sockets", "cores", "threads")}
    return {"cells": cells or 1, **numbers}


def _supported(root: ElementTree.Element) -> tuple[tuple[str, str, str], ...]:
    """Return (architecture, hypervisor type, vm mode) of every kind of guest, each once."""
    found = (
        (arch.get("name", "").lower(), domain.get("type", "").lower(), mode.lower())
        for guest in root.findall("guest")
        for mode in [guest.findtext("os_type", "")]
        for arch in guest.findall("arch")
        for domain in arch.findall("domain")
    )
    return tuple(dict.fromkeys(found))


def _features(cpu: ElementTree.Element) -> list[str]:
    return [name for feature in cpu.findall("feature") if (name := feature.get("name"))]


def _number(text: str | None) -> int | None:
    return int(text) if text is not None and text.isdecimal() else None


def _parse(xml: str, question: str) -> ElementTree.Element:
    try:
        return ElementTree.fromstring(xml)
    except ElementTree.ParseError as error:
        raise DriverAnswerUnusable(question, str(error)) from error
