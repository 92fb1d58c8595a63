# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""The command that decides beside nova-scheduler, and compares."""

from collections.abc import Iterator
from contextlib import closing
from dataclasses import asdict
from time import monotonic
from typing import Any

from conf.daemon.state_logger import one_line
from inventory.errors import OperationRefused, counted
from inventory.nova.placement import PlacementClient
from inventory.nova.placement_errors import PlacementError
from scheduler.operators.cli.arguments import add_limit, positive, seconds
from scheduler.operators.cli.base import ReportCommand, Table
from scheduler.operators.cli.live_table import live_hosts
from scheduler.operators.cli.terminal import progress
from scheduler.operators.nova_shadow.comparison import (
    AGREEING,
    Comparison,
    Kind,
    count_deciding,
    count_kinds,
    latency,
)
from scheduler.operators.nova_shadow.request_copies import BROKEN, RequestCopies
from scheduler.operators.nova_shadow.shadow import MIRRORED, Outcomes, Shadow, Shadowed

# Seconds without an allocation after which nova-scheduler is taken to have refused.
WAIT = 30.0
# Disagreements to show.
MAX_SHOWN = 100
_KINDS = {
    Kind.SAME: "same host",
    Kind.TIE: "another host of equal weight",
    Kind.DRAWN: "another of the best hosts, from which one is drawn at random",
    Kind.BOTH_REFUSED: "refused by both",
    Kind.WEIGHED: "another host, of another weight",
    Kind.FILTERED: "Nova's host is refused here",
    Kind.NO_HOST: "refused here only",
    Kind.NOVA_NO_HOST: "refused by Nova only",
    Kind.UNKNOWN: "not compared",
}


class NovaShadow(ReportCommand):
    """Decide the requests to nova-scheduler as well, and compare. Nothing is claimed or answered.

    The broker copies each request into a queue that is deleted when this command ends. The decision
    is made at once, on the hosts in our database and with this configuration. What nova-scheduler
    chose is read from Placement. The exit status is 0 if both agree on all requests, else 1.
    """

    def add_arguments(self, parser: Any) -> None:
        what = "Number of requests to compare (default: until Ctrl-C, which prints the report)."
        parser.add_argument("--requests", type=positive, metavar="N", help=what)
        parser.add_argument("--minutes", type=positive, metavar="M", help="Minutes to listen.")
        what = (
            "Seconds to wait for an allocation before a request counts as refused by Nova"
            f" (default: {WAIT:g})."
        )
        parser.add_argument("--wait", type=seconds, default=WAIT, metavar="S", help=what)
        add_limit(parser, "disagreements", MAX_SHOWN)

    def take_action(self, args: Any) -> int:
        try:
            shadow, broken = self._shadow(args)
        except PlacementError as error:
            raise OperationRefused(str(error)) from None
        found = [each.comparison for each in shadow.requests if each.comparison]
        self.report(args, _sections(shadow, found, args.limit), _document(shadow, found))
        if broken:
            self.app.stderr.write(f"The broker ended the connection: {broken}\n")
        is_agreed = found and all(each.kind in AGREEING for each in found)
        return 0 if is_agreed and not broken else 1

    def _shadow(self, args: Any) -> tuple[Shadow, str]:
        """Return what was compared, and how the broker ended it, if it did."""
        with live_hosts(self.app) as live, closing(PlacementClient(self.conf)) as client:
            # A mistake shows now.
            client.providers()
            # Each decision is made on what the mirror has written until then.
            live.destinations.host_cache.max_age = 0.0
            try:
                copies = RequestCopies(self.conf)
            except BROKEN as error:
                raise OperationRefused(
                    f"requests cannot be copied: {one_line(error)}; check [DEFAULT] transport_url"
                    " and control_exchange, and that its account may configure and read queues"
                    " berthmaster_shadow_.*"
                ) from None
            until = None if args.minutes is None else monotonic() + 60 * args.minutes
            shadow = Shadow(live.destinations, Outcomes(client), args.wait)
            broken = ""
            self.app.stderr.write("Listening for requests to nova-scheduler ...\n")
            self.app.stderr.flush()
            with closing(copies), progress(self.app, "requests compared") as shadow.show:
                try:
                    shadow.run(copies, args.requests, until)
                except BROKEN as error:
                    broken = one_line(error)
        return shadow, broken


def _sections(shadow: Shadow, found: list[Comparison], limit: int) -> Iterator[str | Table]:
    compared = [each for each in found if each.kind is not Kind.UNKNOWN]
    agreed = sum(each.kind in AGREEING for each in compared)
    share = f" ({100 * agreed / len(compared):.1f} %)" if compared else ""
    yield (
        f"{counted(len(found), 'request')}, {len(compared)} compared:"
        f" {counted(agreed, 'agrees', 'agree')}{share}."
    )
    counts = count_kinds(found)
    rows = [(text, counts[kind]) for kind, text in _KINDS.items() if counts[kind]]
    yield Table("", ("Outcome", "Requests"), rows)
    deciding = list(count_deciding(found).items())
    yield Table("What made the difference", ("Filter or weigher", "Requests"), deciding)
    yield Table("Latency in ms", ("Scheduler", "Requests", "p50", "p95"), _latency_rows(shadow))
    differing = [each for each in shadow.requests if _differs(each)]
    if differing:
        hurried = sum(each.recent > 0 for each in differing)
        yield ""
        yield (
            f"Requests with different answers; {hurried} of {len(differing)} came within"
            f" {MIRRORED:g} s of other requests, whose instances Nova saw and the mirror may not"
            " have reported yet:"
        )
    for each in differing[:limit]:
        assert each.comparison is not None
        recent = f" ({counted(each.recent, 'request')} in the {MIRRORED:g} s before)"
        text = each.comparison.text + (recent if each.recent else "")
        yield f"{each.request_id} {each.instance_uuid or ''}: {text}"
    if len(differing) > limit:
        yield f"... and {len(differing) - limit} more; use --limit or -f json"


def _differs(each: Shadowed) -> bool:
    return each.comparison is not None and each.comparison.kind not in AGREEING


def _latencies(shadow: Shadow) -> dict[str, Any]:
    found = shadow.requests
    exact = [each.nova_seconds for each in found if each.exact and each.nova_seconds is not None]
    seen = [each.nova_seconds for each in found if not each.exact and each.nova_seconds is not None]
    return {
        "decision": latency([each.seconds for each in found if each.seconds is not None]),
        "nova_notified": latency(exact),
        "nova_seen": latency(seen),
    }


def _latency_rows(shadow: Shadow) -> list[tuple[Any, ...]]:
    titles = {
        "decision": "Berthmaster: the decision, without claim and RPC",
        "nova_notified": "nova-scheduler, by its notifications",
        "nova_seen": "nova-scheduler, at most: until the allocation was seen",
    }
    return [
        (titles[name], each.requests, f"{1000 * each.p50:.1f}", f"{1000 * each.p95:.1f}")
        for name, each in _latencies(shadow).items()
        if each.requests
    ]


def _document(shadow: Shadow, found: list[Comparison]) -> dict[str, Any]:
    return {
        "requests": len(found),
        "agree": sum(each.kind in AGREEING for each in found),
        "kinds": count_kinds(found),
        "decided_by": count_deciding(found),
        "seconds": {name: asdict(each) for name, each in _latencies(shadow).items()},
        "comparisons": [
            {
                "request_id": each.request_id,
                "instance_uuid": each.instance_uuid,
                "instances": each.instances,
                "recent": each.recent,
                "seconds": each.seconds,
                "nova_seconds": each.nova_seconds,
                **(asdict(each.comparison) if each.comparison else {}),
            }
            for each in shadow.requests
        ],
    }
