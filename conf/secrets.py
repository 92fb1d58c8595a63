# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""Which options are secret by their names, and texts without the secrets in them."""

import re

from oslo_config import cfg

from conf.private_apis import registered_options

# In place of a secret.
MASK = "***"
_WORDS = (
    "pass(?:word|wd|phrase)?|pwd|secrets?|tokens?|credentials?|authorization|cookie"
    "|(?:private|api|access|auth|shared|account|encryption|signing)_?key"
)
# Parameters of a connection may have any of them. A name of a file, or a number, is no secret.
_SECRET_NAME = re.compile(
    rf"(?:.*_)?(?:{_WORDS}|connection_parameters)(?:_(?!file|path|dir).*)?", re.IGNORECASE
)
# Types of options that may have secrets.
_TEXTS = (cfg.types.String, cfg.types.List, cfg.types.Dict, cfg.types.MultiString, cfg.types.URI)
# Name and password in a URL, and what follows a question mark.
_ACCOUNT = re.compile(r"(\w[\w+.-]*://)\S*@")
_QUERY = re.compile(r"(\w[\w+.-]*:/[^\s?]*\?)([^\s'\"]+)")
_PARAMETER = re.compile(r"([^&;=#]+=)?[^&;#]+")
# As in a DSN, in an address that is no URL, and in JSON.
_ASSIGNED = re.compile(
    rf"(\b[\w-]*(?:{_WORDS})[\"']?\s*=\s*|[\"'][\w-]*(?:{_WORDS})[\"']\s*:\s*)"
    r"(\"[^\"]*\"|'[^']*'|[^\s&,;]+)",
    re.IGNORECASE,
)


def is_secret_name(name: str) -> bool:
    return _SECRET_NAME.fullmatch(name.replace("-", "_")) is not None


def mark_secrets(conf: cfg.ConfigOpts) -> None:
    """Make options secret whose libraries or plug-ins did not: reports and logs mask those."""
    for option in registered_options(conf).values():
        if is_secret_name(option.dest) and isinstance(option.type, _TEXTS):
            option.secret = True


def without_secrets(text: str) -> str:
    """Return a text without accounts and parameters of URLs, and without named passwords."""
    text = _ACCOUNT.sub(rf"\1{MASK}@", text)
    text = _QUERY.sub(lambda found: found[1] + _PARAMETER.sub(rf"\1{MASK}", found[2]), text)
    return _ASSIGNED.sub(rf"\1{MASK}", text)
