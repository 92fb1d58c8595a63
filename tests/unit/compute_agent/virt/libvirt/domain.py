# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Domains as libvirt writes them, for tests that look at one part of them."""

from tests.fixtures.agent import UUID

NOVA = "http://openstack.org/xmlns/libvirt/nova/1.1"


def a_domain(*parts: str, devices: str = "", metadata: str = "") -> str:
    """Return a domain of 4 CPUs and 4096 MiB with more elements, more devices and Nova's notes."""
    return f"""
<domain type='kvm'>
  <name>instance-00000001</name>
  <uuid>{UUID.format(1)}</uuid>
  <metadata>{metadata}</metadata>
  <memory unit='KiB'>4194304</memory>
  <currentMemory unit='KiB'>1048576</currentMemory>
  <vcpu placement='static'>4</vcpu>
  {"".join(parts)}
  <os><type arch='x86_64' machine='q35'>hvm</type></os>
  <devices>{devices}</devices>
</domain>"""


def noted(flavor: str = "", image: str = "", more: str = "", namespace: str = NOVA) -> str:
    """Return Nova's notes of an instance: extra specs, image properties and what else."""
    specs = "".join(
        f'<nova:extraSpec name="{name}">{value}</nova:extraSpec>'
        for name, value in (each.split("=") for each in flavor.split())
    )
    properties = "".join(
        f'<nova:property name="{name}">{value}</nova:property>'
        for name, value in (each.split("=") for each in image.split())
    )
    return f"""
<nova:instance xmlns:nova="{namespace}">
  <nova:flavor name="m1.small" id="3">
    <nova:memory>2048</nova:memory>
    <nova:vcpus>2</nova:vcpus>
    <nova:extraSpecs>{specs}</nova:extraSpecs>
  </nova:flavor>
  <nova:image uuid="i1"><nova:properties>{properties}</nova:properties></nova:image>
  {more}
</nova:instance>"""
