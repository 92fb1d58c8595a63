# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Faults that this project once had or guards against, put back one at a time.

Each is a function that changes the product in the process of one history. The simulation has to
find every one of them: what it does not find, it does not protect.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from compute_agent.audit import reserved_places
from compute_agent.lease import Lease
from compute_agent.virt.nova import cell, reserves
from inventory.claims import claims, existing, group_locks
from inventory.claims.standbys import StandbyChanges
from inventory.claims.types import COMING
from inventory.claims.usage_update import LockedNodes
from inventory.revisions import ELIGIBILITY
from scheduler.claims.standby_keeper import _Work
from scheduler.select_destinations import destination_builder


def _replace(owner: Any, name: str, instead: Any) -> None:
    """Replace a part of the product, which has to have it: else the fault would be no fault."""
    getattr(owner, name)
    setattr(owner, name, instead)


def _room_is_not_checked() -> None:
    """A claim is made whether there is room or not."""
    fits: Any = LockedNodes._fits

    def without(nodes: Any, node_id: int, change: Any) -> bool:
        return bool(fits(nodes, node_id, replace(change, limits={})))

    _replace(LockedNodes, "_fits", without)


def _aggregates_are_not_checked() -> None:
    """A claim does not notice that an operator has changed aggregates or services of the host."""
    fits: Any = LockedNodes._fits

    def without(nodes: Any, node_id: int, change: Any) -> bool:
        known = {key: each for key, each in change.known.items() if key != ELIGIBILITY}
        return bool(fits(nodes, node_id, replace(change, known=known)))

    _replace(LockedNodes, "_fits", without)


def _group_is_not_locked() -> None:
    """The rule of a server group is checked by what was read before the transaction alone."""
    _replace(group_locks, "within_policy", lambda _connection, request, _groups: request)


def _repeat_is_not_noticed() -> None:
    """A request that was answered is claimed for again."""
    _replace(claims, "_repeated", lambda *_arguments: None)


def _plan_replaces() -> None:
    """The claim of a plan takes the place of the pending claim of a boot."""
    _replace(existing, "check_none_pending", lambda _earlier: None)


def _alternate_is_not_held() -> None:
    """Alternates are answered without claims."""
    settings: Any = destination_builder.ClaimSettings

    def without(lease: float, attempts: int, _alternates: bool, **more: Any) -> Any:
        return settings(lease, attempts, False, **more)

    _replace(destination_builder, "ClaimSettings", without)


def _move_is_released() -> None:
    """The audit that confirms an instance releases what is claimed later elsewhere, too."""

    def without(connection: Any, uuids: Any) -> Any:
        earlier, _ = existing.of_instances(connection, uuids)
        return claims.release_rows(connection, [row for row in earlier if row.state in COMING])

    _replace(claims, "release_elsewhere", without)


def _leaving_claims_are_released() -> None:
    """The request to move an instance ends the claim on the host that the instance leaves."""
    _replace(existing, "leaving", lambda *_arguments: [])


def _claims_do_not_end() -> None:
    """A claim that nobody comes for stays."""
    reconcile: Any = existing.reconcile

    def without(rows: Any, seen: Any, now: Any, superseded: Any = (), lacking: Any = ()) -> Any:
        return reconcile(rows, seen, now.replace(year=1), superseded, lacking)

    _replace(existing, "reconcile", without)


def _standbys_are_not_counted() -> None:
    """What a node holds for standbys is not part of what is used of it."""
    _replace(StandbyChanges, "count", lambda *_arguments: None)


def _standbys_do_not_end() -> None:
    """The standby of an instance that is gone stays."""
    _replace(_Work, "gone", lambda _work: iter(()))


def _standbys_of_places_do_not_end() -> None:
    """The standby of a reserved place that is gone stays."""
    gone: Any = _Work.gone

    def without(work: Any) -> Any:
        return (row for row in gone(work) if not row.of_place)

    _replace(_Work, "gone", without)


def _place_is_lost() -> None:
    """The audit ends a reserved place whose instance is gone, rather than to hold it again."""
    places = reserved_places.places

    def without(connection: Any, changed: Any) -> None:
        places.delete(connection, [each for each in changed if each.taken_by is None])

    _replace(places, "write", without)


def _late_counts_are_reserves() -> None:
    """What Nova has not counted yet of its instances changes what a host reserves at once."""
    _replace(reserves, "SETTLED", 0.0)


def _digests_are_not_compared() -> None:
    """The mirror reads by stamps alone, and misses what a clock that is behind has stamped."""
    _replace(cell, "changed_hosts", lambda _old, _new: cell.NONE)


def _two_mirrors_write() -> None:
    """A mirror goes on writing when its lease is over."""
    _replace(Lease, "held", True)


FAULTS: dict[str, Callable[[], None]] = {
    each.__name__.strip("_"): each
    for each in (
        *(_room_is_not_checked, _aggregates_are_not_checked, _group_is_not_locked),
        *(_repeat_is_not_noticed, _plan_replaces, _alternate_is_not_held, _move_is_released),
        *(_leaving_claims_are_released, _claims_do_not_end, _standbys_are_not_counted),
        *(_standbys_do_not_end, _standbys_of_places_do_not_end, _place_is_lost),
        *(_late_counts_are_reserves, _digests_are_not_compared, _two_mirrors_write),
    )
}
