# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Options that plug-ins of third parties register themselves.

They do so on oslo.config's CONF, the configuration of the process, and read them there whenever
they like, as plug-ins for Nova do. So that is where a decision that is made again has to show them
the values that it was made with.
"""

from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager

from oslo_config import cfg

from conf import loading

Name = tuple[str, str]
# As (group, option) each. A plug-in is imported once in a process, and registers them then.
_REGISTERED: set[Name] = set()


@contextmanager
def noticed() -> Iterator[None]:
    """Remember the options that are registered inside, where plug-ins are imported and made."""
    before = _all(cfg.CONF)
    try:
        yield
    finally:
        _REGISTERED.update(_all(cfg.CONF) - before)


def registered() -> frozenset[Name]:
    """Return the options of plug-ins as (group, option) each, without secrets."""
    return frozenset(each for each in _REGISTERED & _all(cfg.CONF) if not _opt(*each).secret)


@contextmanager
def taken_from(conf: cfg.ConfigOpts, others: Iterable[Name] = ()) -> Iterator[None]:
    """Let plug-ins find their options, and some others, as another configuration has them.

    What it does not say of their options is the default. Raises ValueError for a wrong value.
    """
    with ExitStack() as afterwards:
        for group, option in sorted({*registered(), *others} & _all(cfg.CONF)):
            where = None if group == "DEFAULT" else group
            try:
                if (group, option) not in _all(conf):
                    conf.register_opt(_opt(group, option), where)
                cfg.CONF.set_override(option, (conf[group] if where else conf)[option], where)
            except cfg.Error as error:
                told = loading.explain(error, conf, group, _opt(group, option))
                raise ValueError(told) from error
            # As the types of options fail with what is no text at all.
            except (AttributeError, TypeError, ValueError) as error:
                raise ValueError(f"option [{group}] {option}: {error}") from error
            afterwards.callback(cfg.CONF.clear_override, option, where)
        yield


def _all(conf: cfg.ConfigOpts) -> set[Name]:
    """Return the options that are registered, for which oslo.config has no question."""
    found = {("DEFAULT", option) for option in conf._opts}
    return found | {(name, each) for name, group in conf._groups.items() for each in group._opts}


def _opt(group: str, option: str) -> cfg.Opt:
    found: cfg.Opt = cfg.CONF._get_opt_info(option, None if group == "DEFAULT" else group)["opt"]
    return found
