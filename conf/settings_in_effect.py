# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""The options of a process with the values that it uses, and what set each, without secrets."""

import re
from typing import Any

from oslo_config import cfg

from conf import loading
from conf.private_apis import registered_options

# In place of a secret.
MASK = "***"
BY_DEFAULT = "default"
# Name and password in a URL.
_ACCOUNT = re.compile(r"(\w[\w+.-]*://)\S*@")
_OF_PLACES = {cfg.Locations.command_line: "command line", cfg.Locations.set_override: "the program"}


def settings_in_effect(conf: cfg.ConfigOpts) -> list[dict[str, Any]]:
    """Return {group, option, value, set_by} of each registered option, by group and option.

    Values are those of JSON. set_by is a file, an environment variable, or words for another place.
    Files are read again for it: one that was changed may be named although the process has an older
    value.
    """
    files = loading.files_of(conf)
    found = []
    for (group, name), option in sorted(registered_options(conf).items()):
        try:
            value, set_by = _setting(conf, group, name, option, files)
        # Of a library or a plug-in: values of other options are checked at the start.
        except (cfg.Error, ValueError) as error:
            value, set_by = None, f"cannot be read: {type(error).__name__}"
        found.append({"group": group, "option": name, "value": value, "set_by": set_by})
    return found


def _setting(
    conf: cfg.ConfigOpts, group: str, name: str, option: cfg.Opt, files: loading.Files
) -> tuple[Any, str]:
    section = None if group == "DEFAULT" else group
    value = conf[group][name] if section else conf[name]
    value = _masked(option, value) if option.secret and value else _shown(value)
    if not loading.is_given(conf, group, name):
        return value, BY_DEFAULT
    place = conf.get_location(name, section)
    if place.location is cfg.Locations.user:
        found = loading.setting(conf, loading.option_names(group, option), files)
        return value, found.file if found else str(place.detail)
    return value, _OF_PLACES.get(place.location, str(place.detail))


def _masked(option: cfg.Opt, value: Any) -> str:
    """Return a secret without what is secret: of the URL of a server with an account, the server.

    What follows a ? may be a password as well.
    """
    account, at, server = str(value).rpartition("@")
    scheme, is_url, _ = account.partition("://")
    is_clear = at and is_url and not loading.is_ambiguous_list(str(value))
    if not (is_clear and option.name.endswith(("connection", "url"))):
        return MASK
    return f"{scheme}://{MASK}@{server.partition('?')[0]}"


def _shown(value: Any) -> Any:
    """Return a value as JSON has it, without the accounts in URLs."""
    match value:
        case None | bool() | int() | float():
            return value
        case list() | tuple():
            return [*map(_shown, value)]
        case dict():
            return {str(key): _shown(each) for key, each in value.items()}
    return without_accounts(str(value))


def without_accounts(text: str) -> str:
    return _ACCOUNT.sub(rf"\1{MASK}@", text)
