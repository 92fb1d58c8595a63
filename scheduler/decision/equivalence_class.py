# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""What is known of all hosts for requests that ask the same, from one decision to the next.

Most requests of a cloud ask for one of a few flavors, and between two of them a few hosts change.
Borg calls such requests an equivalence class and caches scores; so does this. A host that took an
instance of the class is as foretold; any other host that has changed is asked about again. As soon
as one changes sides, so that a filter that let it pass refuses it now, the next decision asks about
all hosts.
"""

from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from scheduler.base_plugin import BasePlugin
from scheduler.decision.batch_placement import (
    BatchPlacer,
    FirstPlacement,
    consumes_numbers_only,
    few_for,
    same_for_any_instance,
)
from scheduler.decision.incremental_ranking import IncrementalRanking
from scheduler.decision.lookahead import Lookahead
from scheduler.decision.picker import Choice
from scheduler.decision.plugin_calls import applies, declared, passing, verdicts, weights_of
from scheduler.decision.types import Step
from scheduler.decision.weighing import Ranking, WeigherScores
from scheduler.filters import BaseHostFilter
from scheduler.hosts.columns import Mask, Rows
from scheduler.hosts.host_state import Consumption
from scheduler.hosts.table import HostTable
from scheduler.objects.request_spec import RequestSpec
from scheduler.weighers import BaseHostWeigher

# Of how many classes scores are kept: 1 MB each for ten thousand hosts.
MAX_CLASSES = 32
# With more changed hosts than these it costs less to ask about all of them.
_MAX_CHANGED = 256
# Multipliers are read from the metadata of aggregates.
_MULTIPLIERS = "aggregates"
_CONSUMED = frozenset(Consumption(0, 0, 0).changes)


@dataclass(frozen=True, slots=True)
class Questions:
    """What a request asks of each host: the filters of its first instance and of further ones."""

    spec: RequestSpec
    filters: Sequence[BaseHostFilter]
    rules: Sequence[BaseHostFilter]
    weighers: Sequence[BaseHostWeigher]
    choice: Choice

    def key(self, hosts: HostTable) -> Hashable | None:
        """Return what requests of the same class have in common, None for one that has no class.

        That is any whose instances depend on each other, on documents or on hosts by name.
        """
        spec = self.spec
        if spec.instance_group or spec.has_forced_target or not consumes_numbers_only(hosts, spec):
            return None
        amounts = spec.vcpus, spec.memory_mb, spec.disk_mb
        asked = [(each, declared(each, spec)) for each in self.filters if applies(each, spec)]
        weighed = [(each, declared(each, spec)) for each in self.weighers if applies(each, spec)]
        return self.choice.takes_best, amounts, *asked, *weighed

    def are_reusable(self, ranking: Ranking) -> bool:
        """Return whether hosts that have changed can be asked about by themselves."""
        weighers = [each.weigher for each in ranking.scores]
        rules = [each for each in self.rules if applies(each, self.spec)]
        plugins: list[BasePlugin] = [*rules, *weighers]
        return (
            same_for_any_instance(plugins, self.spec)
            and all(each.is_finite for each in ranking.scores)
            and all(_has_plain_multiplier(each) for each in weighers)
            and not any(self._may_turn(each) for each in self.filters if each not in self.rules)
        )

    def _may_turn(self, once: BaseHostFilter) -> bool:
        """Return whether a filter of the first instance alone may refuse its host later."""
        inputs = declared(once, self.spec) if applies(once, self.spec) else None
        return inputs is not None and not _CONSUMED.isdisjoint(inputs[1])


class EquivalenceClass:
    """The steps of the first instance, the order of all hosts that remained, and their limits.

    It is made from what a decision found out about all hosts of a table, before that has consumed
    anything: candidates are the hosts before the filters, steps and ranking what comes of them.
    """

    def __init__(
        self,
        hosts: HostTable,
        questions: Questions,
        candidates: Mask,
        steps: tuple[Step, ...],
        ranking: Ranking,
    ) -> None:
        spec = questions.spec
        self.steps, self.rules = steps, questions.rules
        self._size, self._candidates = hosts.size, candidates
        self._passing: list[tuple[BaseHostFilter, Mask]] = []
        self._undeclared: list[tuple[BaseHostFilter, Mask, Mask]] = []
        columns: set[str] = {_MULTIPLIERS}
        before = candidates
        for rule in questions.filters:
            if not applies(rule, spec):
                continue
            hosts.candidates = before
            passes, inputs = passing(hosts, rule, spec).copy(), declared(rule, spec)
            if inputs is None:
                self._undeclared.append((rule, before, before & passes))
            else:
                self._passing.append((rule, passes))
                columns.update(inputs[1])
            before = before & passes
        # The arrays of a ranking are those of the cache of results, which change.
        scores = [
            WeigherScores(each.weigher, each.multipliers, each.raw.copy())
            for each in ranking.scores
        ]
        for each in scores:
            inputs = declared(each.weigher, spec)
            columns.update(inputs[1] if inputs else ())
        self.ranking = IncrementalRanking(
            Ranking(ranking.rows, ranking.totals, scores), few_for(questions.choice)
        )
        self._ranked = np.zeros(hosts.size, np.bool_)
        self._ranked[ranking.rows] = True
        self._limits = hosts.limits
        self._weighers = [each.weigher for each in scores]
        changes = Consumption(spec.vcpus, spec.memory_mb, spec.disk_mb).changes
        rules = [each for each in questions.rules if applies(each, spec)]
        self._lookahead = Lookahead(hosts, spec, rules, self._weighers, changes)
        self._columns = tuple(sorted(columns))
        self._consumed = tuple(sorted(columns & _CONSUMED))
        self._positions = hosts.positions(self._columns)
        # What rows have in the columns that instances consume, where one was placed.
        self._foretold: dict[int, tuple[float, ...]] = {}
        self._unconfirmed: set[int] = set()

    def resume(self, hosts: HostTable, spec: RequestSpec, candidates: Mask) -> bool:
        """Take in how a table has changed; return False where all hosts have to be asked again."""
        if hosts.size != self._size or not np.array_equal(candidates, self._candidates):
            return False
        for rule, before, after in self._undeclared:
            hosts.candidates = before
            if not np.array_equal(before & passing(hosts, rule, spec), after):
                return False
        changed = self._changed(hosts)
        if changed is None or len(changed) > _MAX_CHANGED:
            return False
        self._lookahead.hosts = hosts
        self._positions = hosts.positions(self._columns)
        if changed and not self._ask_again(hosts, spec, np.array(sorted(changed), np.int64)):
            return False
        hosts.limits = self._limits
        return True

    def placer(self, hosts: HostTable, first: FirstPlacement, choice: Choice) -> BatchPlacer:
        """Return a placer of further instances of a request."""
        return BatchPlacer(hosts, first, self._lookahead, self.ranking, choice)

    def foresee(self, hosts: HostTable, rows: Iterable[int]) -> None:
        """Note what these rows of a table have after a request, as they should have from now on."""
        for row in rows:
            self._foretold[row] = self._values(hosts, row)
            self._unconfirmed.add(row)

    def _changed(self, hosts: HostTable) -> set[int] | None:
        """Return the rows that are not as foretold; None where any may be."""
        positions = dict(zip(self._columns, self._positions, strict=True))
        if hosts.positions([_MULTIPLIERS]) != (positions[_MULTIPLIERS],):
            return None
        others = [each for each in self._columns if each not in self._consumed]
        written = hosts.written_since(others, [positions[each] for each in others])
        consumed = hosts.written_since(self._consumed, [positions[each] for each in self._consumed])
        if written is None or consumed is None:
            return None
        changed = {*written.tolist()}
        for row in {*consumed.tolist(), *self._unconfirmed}:
            if self._foretold.get(row) != self._values(hosts, row):
                changed.add(row)
        self._unconfirmed.clear()
        for row in changed:
            self._foretold.pop(row, None)
            self._lookahead.forget(row)
        return changed

    def _ask_again(self, hosts: HostTable, spec: RequestSpec, rows: Rows) -> bool:
        """Ask about these rows; return False where a filter says something else than before."""
        warnings = len(hosts.warnings)
        part = hosts.part(rows, self._columns)
        for rule, passes in self._passing:
            found, limits = verdicts(rule, spec, part)
            if not np.array_equal(found, passes[rows]):
                return False
            for name, column in limits.items():
                getattr(self._limits, name)[rows] = column
        try:
            raw = np.array([weights_of(each, part, spec) for each in self._weighers])
        except Exception:
            return False
        raw = raw.reshape(len(self._weighers), len(rows))
        if not np.isfinite(raw).all() or len(hosts.warnings) > warnings:
            return False
        ranked = self._ranked[rows]
        self.ranking.change_rows(rows[ranked], raw[:, ranked])
        return True

    def _values(self, hosts: HostTable, row: int) -> tuple[float, ...]:
        return tuple([hosts.get(row, name) for name in self._consumed])


class CachedScores:
    """The cached scores of the class of a request, in the score cache of a table."""

    def __init__(self, hosts: HostTable, questions: Questions, candidates: Mask) -> None:
        self._hosts, self._questions, self._candidates = hosts, questions, candidates
        self._key = questions.key(hosts)
        self._is_second = False

    def find(self) -> EquivalenceClass | None:
        """Return the class if its scores hold, until keep() without the cache."""
        cache = self._hosts.score_cache
        self._is_second = self._key in cache
        found = cache.pop(self._key, None) if self._key else None
        holds = found and found.resume(self._hosts, self._questions.spec, self._candidates)
        return found if holds else None

    def note(self, steps: tuple[Step, ...], ranking: Ranking) -> EquivalenceClass | None:
        """Return a class made of what was found, None for the first request of its kind."""
        hosts, questions = self._hosts, self._questions
        if not self._key:
            return None
        # What a plug-in that has failed would say is not known.
        is_known = not hosts.warnings and hosts.limits.are_numbers
        if not (self._is_second and is_known and questions.are_reusable(ranking)):
            self._put(None)
            return None
        return EquivalenceClass(hosts, questions, self._candidates, steps, ranking)

    def keep(self, known: EquivalenceClass, placed: BatchPlacer) -> None:
        """Keep the scores of a class if they hold after what was placed."""
        known.foresee(self._hosts, placed.rows)
        self._put(known if placed.has_all_hosts else None)

    def _put(self, known: EquivalenceClass | None) -> None:
        cache = self._hosts.score_cache
        cache[self._key] = known
        while len(cache) > MAX_CLASSES:
            del cache[next(iter(cache))]


def _has_plain_multiplier(weigher: BaseHostWeigher) -> bool:
    """Return whether its multiplier depends on the metadata of aggregates alone."""
    own, base = type(weigher), BaseHostWeigher
    return own.weight_multiplier is base.weight_multiplier and own.multipliers is base.multipliers
