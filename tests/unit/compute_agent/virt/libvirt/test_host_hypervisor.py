# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""What is dear to ask is asked in calls that may each take long."""

import threading

import pytest

from compute_agent.virt.driver import DriverAnswerUnusable, DriverUnavailable
from compute_agent.virt.libvirt import host
from compute_agent.virt.libvirt.connection import Connection
from compute_agent.virt.libvirt.events import Events
from compute_agent.virt.libvirt.host import Hypervisor
from compute_agent.virt.libvirt.session import Timeouts
from tests.fixtures.agent import sample
from tests.fixtures.daemons.process import PATIENCE
from tests.unit.compute_agent.virt.libvirt.library import Daemon, a_host

SHORT = 0.2


def read(daemon: Daemon, answer: float = PATIENCE) -> Hypervisor:
    events = Events(daemon.library, lambda: None)
    connection = Connection(daemon.library, "test:///x", Timeouts(answer, PATIENCE), events)
    found = host.read_hypervisor(connection, daemon.library)
    assert found.opening is connection.opening
    return found


def test_a_real_hosts_answers() -> None:
    found = read(a_host())
    assert (found.kind, found.version) == ("QEMU", 7002022)
    assert found.capabilities.supported_instances[1] == ("i686", "kvm", "hvm")
    assert "vme" in found.cpu_info


def test_an_expansion_of_the_cpu_is_used() -> None:
    found = read(a_host(baselineCPU=lambda cpus, flags: cpus[0].replace("vme", "zzz"))).cpu_info
    assert "zzz" in found
    assert "vme" not in found


def test_a_cpu_without_a_model_is_not_expanded() -> None:
    daemon = a_host(getCapabilities=sample("capabilities-test-default.xml"))
    assert '"model": null' in read(daemon).cpu_info
    assert "baselineCPU" not in daemon.calls


@pytest.mark.parametrize("question", ["getVersion", "getCapabilities", "baselineCPU"])
def test_dear_questions_may_take_long(question: str) -> None:
    daemon, awake = a_host(), threading.Event()
    answer = daemon.answers[question]

    def slow(*_: object) -> object:
        threading.Timer(3 * SHORT, awake.set).start()
        awake.wait()
        if isinstance(answer, Exception):
            raise answer
        return answer

    daemon.answers[question] = slow
    assert read(daemon, answer=SHORT).version == 7002022


def test_a_loss_between_two_questions_is_noticed() -> None:
    daemon = a_host()

    def last_words() -> int:
        daemon.die()
        return 7002022

    daemon.answers["getVersion"] = last_words
    with pytest.raises(DriverUnavailable):
        read(daemon)


def test_nonsense_is_an_error_of_the_driver() -> None:
    with pytest.raises(DriverAnswerUnusable):
        read(a_host(getCapabilities="<html>"))
