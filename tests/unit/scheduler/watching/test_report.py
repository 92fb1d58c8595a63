# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Tests of scheduler.watching.report: what is in the report on SIGUSR2."""

from oslo_reports.guru_meditation_report import TextGuruMeditation

from scheduler.course import PLACED, Course
from scheduler.host_view import HostView
from scheduler.rpc.context import RequestContext
from scheduler.watching.report import LAST, Report


class Requests:
    """A server that handles two."""

    in_flight = 2


def a_course(*uuids):
    return Course(RequestContext(), uuids, 0.0, PLACED, total=0.0025)


def test_the_report_has_the_view_the_queue_and_the_last_requests(database, monkeypatch):
    monkeypatch.setattr(TextGuruMeditation, "persistent_sections", [], raising=False)
    report, view = Report(), HostView(database)
    report.register(view, Requests())
    report.ended(a_course("u1", "u2"))
    report.ended(a_course())
    ((title, section),) = TextGuruMeditation.persistent_sections
    model = section()
    model.set_current_view_type("text")
    text = str(model)
    assert title == "Scheduler"
    assert "seconds since the view was read = inf" in text
    assert "requests in flight = 2" in text
    assert "u1 placed in 2.5 ms" in text
    assert "(no uuid) placed in 2.5 ms" in text
    with view.current():
        pass
    assert float(report.facts(view, Requests())["seconds since the view was read"]) < 60


def test_only_the_last_requests_are_kept(database):
    report = Report()
    for number in range(LAST + 5):
        report.ended(a_course(f"u{number}"))
    lines = report.facts(HostView(database), Requests())["last requests"]
    assert [line.split()[1] for line in lines] == [f"u{number}" for number in range(5, LAST + 5)]
