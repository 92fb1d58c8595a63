# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Times, limits and defaults that pages promise are those of the code."""

import re
from collections.abc import Iterator

import pytest
from oslo_config import cfg

from compute_agent import lease
from compute_agent.virt.libvirt import disks
from compute_agent.virt.libvirt import events as libvirt_events
from compute_agent.virt.nova import changed_rows
from conf import loading
from conf.daemon import health, status_server
from inventory import dialects, engine
from inventory.migrations import sync_lock
from scheduler import monitoring
from scheduler.claims import claim_adoption
from scheduler.claims.claim_reconciler import Pace
from scheduler.monitoring import claim_metrics, standby_metrics
from scheduler.operators.cli import arguments, nova_shadow
from scheduler.operators.status_pages import fleet, page_process, routes
from tests import guides
from tests.fixtures import documented

# By page: what it says of the constants of the code.
PROMISES = [
    ("agent", f"reads the virtual size again after {disks.REMEMBERED / 60:g} minutes"),
    ("agent", f"reads them once more after {libvirt_events.SECOND_AUDIT:g} s"),
    ("claims", f"looks every {claim_adoption.INTERVAL:g} s for pending claims"),
    ("claims", f"that are older than {claim_adoption.AGE:g} s"),
    ("claims", f"has seen after {Pace().interval:g} s. It asks again every {Pace().interval:g} s"),
    ("claims", f"has said twice, {Pace().recheck:g} s apart"),
    ("claims", f"after {Pace().silence / 60:g} minutes, or after {Pace().outage:g} s if it ever"),
    ("claims", f"deadlocks all the same is tried again, for up to {engine._CONFLICT_TIMEOUT:g} s"),
    ("claims", f"A wait for a row ends after {dialects._LOCK_WAIT:g} s"),
    ("claims", f"frozen in the middle of it ends after {dialects._IDLE:g} s"),
    ("installation", f"delays the next one for {sync_lock.LEASE:g} s"),
    ("monitoring", "An answer takes two seconds at most" if health.TIMEOUT == 2 else "?"),
    ("monitoring", f"If the host cache is older than {monitoring.REFRESH_AFTER:g} s"),
    ("monitoring", f"at most every {claim_metrics.INTERVAL:g} s"),
    ("monitoring", f"at most every {standby_metrics.INTERVAL:g} s"),
    ("nova", f"Every {changed_rows.INTERVAL:g} s it also compares"),
    ("nova", f"when the lease ends, after {lease.SECONDS:g} s"),
    ("nova", f"``--wait`` ({nova_shadow.WAIT:g} s)"),
    ("status-pages", f"exact to {status_server.WATCH_INTERVAL:g} seconds"),
    ("status-pages", f"A page takes {page_process.DEADLINE:g} seconds at most"),
    ("status-pages", f"and {page_process.MAX_PAGES} are made at a time: "),
    ("status-pages", f"at a time: {page_process.MAX_ALIKE} of the same kind"),
    ("status-pages", f"and {page_process.MAX_DECIDING} for which plug-ins decide"),
    (
        "status-pages",
        f"ends after {page_process.OWN_DEADLINE * page_process.DEADLINE:g} seconds, which all",
    ),
    ("status-pages", f"{fleet.MAX_SQUARES:,} squares on a page"),
    ("status-pages", f"Up to {fleet._MAX_NAMED} squares have their names"),
    ("status-pages", "``refresh={}`` or ``refresh={}``".format(*routes.REFRESHES)),
    ("troubleshooting", f"gives up after {arguments.DATABASE_TIMEOUT:g} s (``--database-"),
]
# An option with its default, of which test_reference_pages has the words. The group may have been
# named before.
DEFAULT = re.compile(
    r"``(?:\[(\w+)\] )?([a-z_]+)`` \((?:``)?(\d[\d.,]*|[Tt]rue|[Ff]alse)(?:``)?(?: s)?\)"
)


@pytest.mark.parametrize(("page", "promise"), PROMISES)
def test_a_promise_is_that_of_the_code(page, promise):
    assert promise in " ".join(guides.page(f"admin/{page}").split())


def values(conf: cfg.ConfigOpts, group: str, name: str) -> Iterator[object]:
    """Yield the defaults of the options of a name, in a group or in any."""
    if group in ("", "DEFAULT") and name in conf:
        yield conf[name]
    groups = {each: conf[each] for each in conf._groups if each == (group or each)}
    yield from (options[name] for options in groups.values() if name in options)


def is_same(shown: str, value: object) -> bool:
    """Return whether a page shows a value, such as 10,000, 1.0 or True."""
    text = shown.replace(",", "").lower()
    return text in (str(value).lower(), f"{value:g}" if isinstance(value, int | float) else "")


def test_the_defaults_that_pages_name_are_those_of_the_code():
    conf = cfg.ConfigOpts()
    loading.prepare(conf)
    conf([], project="berthmaster", default_config_files=[], default_config_dirs=[])
    found, wrong = 0, []
    for page in documented.pages():
        text = " ".join((documented.ROOT / page).read_text().split())
        for group, name, shown in DEFAULT.findall(text):
            known = [*values(conf, group, name)]
            # Of other programs, and what is no option.
            if not known:
                continue
            found += 1
            if not any(is_same(shown, each) for each in known):
                wrong.append((page, group, name, shown, known))
    assert found > 60
    assert wrong == [], "\n".join(map(str, wrong))
