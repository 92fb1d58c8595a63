# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""A process that claims for several requests in a batch, and is killed before one statement of it.

Arguments: the URL of the database, and which statement, the commit among them. The status is 0
where there are not as many.
"""

import os
import signal
import sys
from itertools import count
from typing import Any

import sqlalchemy as sa

from inventory.engine import Database
from tests.claiming_loop import ClaimingLoop
from tests.contract.database.test_claims_together import a_claim, an_order
from tests.databases import a_uuid, open_at

NODES = (1, 2)


def batch() -> list[Any]:
    """Return requests for two instances and an alternate each."""
    orders = []
    for number in range(3):
        uuids = [a_uuid(f"batch {number} {node}") for node in NODES]
        wanted = [a_claim(uuid, node) for uuid, node in zip(uuids, NODES, strict=True)]
        held = a_claim(uuids[0], 3, alternate=True, answer="[3]")
        answered = [a_claim(w.instance_uuid, w.node_id, answer="[1]") for w in wanted]
        orders.append(an_order(f"req-{number}", *answered, held))
    return orders


def die_before(database: Database, which: int) -> None:
    """Have this process killed before its statement of this number."""
    numbers = count(1)

    def check(*_: Any) -> None:
        if next(numbers) == which:
            os.kill(os.getpid(), signal.SIGKILL)

    sa.event.listen(database.engine, "before_cursor_execute", check)
    sa.event.listen(database.engine, "commit", check)


def main() -> None:
    database = open_at(sys.argv[1])
    works: list[Any] = []
    rounds = ClaimingLoop(database, works.append)
    results = [rounds.submit(lambda _, each=each: each) for each in batch()]
    die_before(database, int(sys.argv[2]))
    for work in works:
        work()
    assert len(works) == 1
    assert all(each.result() for each in results)


if __name__ == "__main__":
    main()
