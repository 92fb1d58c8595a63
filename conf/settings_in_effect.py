# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""The options of a process with the values that it uses, and what set each, without secrets."""

from typing import Any

from oslo_config import cfg

from conf import loading, secrets
from conf.private_apis import registered_options

BY_DEFAULT = "default"
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
    is_secret = (option.secret or secrets.is_secret_name(name)) and not name.endswith("uri")
    value = _masked(option, value) if is_secret and value else _shown(value)
    if not loading.is_given(conf, group, name):
        return value, BY_DEFAULT
    place = conf.get_location(name, section)
    if place.location is cfg.Locations.user:
        found = loading.setting(conf, loading.option_names(group, option), files)
        return value, found.file if found else str(place.detail)
    return value, _OF_PLACES.get(place.location, str(place.detail))


def _masked(option: cfg.Opt, value: Any) -> Any:
    """Return a secret without what is secret: of the URL of a server with an account, the server.

    What follows a ? may be a password as well.
    """
    # A number or a switch with such a name, such as the age of a token.
    if isinstance(value, bool | int | float):
        return value
    account, at, server = str(value).rpartition("@")
    scheme, is_url, _ = account.partition("://")
    is_clear = at and is_url and not loading.is_ambiguous_list(str(value))
    if not (is_clear and option.name.endswith(("connection", "url"))):
        return secrets.MASK
    return f"{scheme}://{secrets.MASK}@{server.partition('?')[0]}"


def _shown(value: Any) -> Any:
    """Return a value as JSON has it, without the secrets in texts."""
    match value:
        case None | bool() | int() | float():
            return value
        case list() | tuple():
            return [*map(_shown, value)]
        case dict():
            return {
                str(key): secrets.MASK if secrets.is_secret_name(str(key)) else _shown(each)
                for key, each in value.items()
            }
    return secrets.without_secrets(str(value))
