# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""A libvirt on this machine is one of this machine, by whatever name it is reached."""

import socket

import pytest

from compute_agent.virt.libvirt.session import is_local

OWN = socket.gethostname().lower()
SHORT = OWN.partition(".")[0]


@pytest.mark.parametrize(
    "uri",
    [
        "qemu:///system",
        "qemu+unix:///session?socket=/run/libvirt-sock",
        "test:///default",
        "qemu+tcp://127.0.0.1/system",
        "qemu+tcp://127.0.1.1:16509/system",
        "qemu+tcp://nova@LocalHost/system",
        "qemu+tls://localhost./system",
        "qemu+tcp://[::1]/system",
        "qemu+tcp://[::ffff:127.0.0.1]:16509/system",
        "qemu+tcp://192.0.2.7/system",
        f"qemu+tls://{OWN.upper()}/system",
        f"qemu+ssh://root@{SHORT}/system",
        f"qemu+tls://{SHORT}.example.org/system",
    ],
)
def test_names_of_this_machine(uri: str) -> None:
    assert is_local(uri, f"{SHORT}.Example.org", "192.0.2.7")


@pytest.mark.parametrize(
    "uri",
    [
        "qemu+tcp://192.0.2.8/system",
        "qemu+tls://elsewhere/system",
        f"qemu+tls://{SHORT}.example.net/system",
        "qemu+tls://127.0.0.1.example.org/system",
        "qemu+tcp://[2001:db8::1]/system",
    ],
)
def test_what_may_be_another_machine(uri: str) -> None:
    assert not is_local(uri, f"{SHORT}.example.org", "192.0.2.7")


def test_a_host_may_be_called_as_it_likes() -> None:
    assert not is_local("qemu+tls://elsewhere/system", "elsewhere", "192.0.2.7")
