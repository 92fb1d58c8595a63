# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""The address of RabbitMQ as nova.conf had it up to Newton (14), where transport_url is not set.

oslo.messaging has dropped these options, and would take a broker at localhost instead.
"""

from urllib.parse import quote

from oslo_config import cfg

from conf import loading

GROUP = "oslo_messaging_rabbit"
_SECTIONS = (GROUP, "DEFAULT")


def transport_url(conf: cfg.ConfigOpts) -> tuple[str, str]:
    """Return the URL that the options lead to, and the file that has the first; "" for none."""
    names = ("hosts", "host", "port", "userid", "password", "virtual_host", "use_ssl")
    found = {name: each for name in names if (each := _setting(conf, f"rabbit_{name}"))}
    if not found:
        return "", ""

    def text(name: str, default: str) -> str:
        # A $ that means itself is written $$ in files.
        return found[name].text.strip().replace("$$", "$") if name in found else default

    account = f"{quote(text('userid', 'guest'), '')}:{quote(text('password', 'guest'), '')}"
    host = text("host", "localhost")
    host = f"[{host}]" if host.count(":") > 1 and not host.startswith("[") else host
    hosts = text("hosts", f"{host}:{text('port', '5672')}").split(",")
    brokers = ",".join(f"{account}@{each.strip()}" for each in hosts if each.strip())
    is_tls = text("use_ssl", "false").lower() in ("true", "1", "yes", "on")
    query = "?ssl=1" if is_tls else ""
    path = quote(text("virtual_host", "/").removeprefix("/"), "")
    return f"rabbit://{brokers}/{path}{query}", next(iter(found.values())).file


def _setting(conf: cfg.ConfigOpts, name: str) -> loading.Setting | None:
    return loading.setting(conf, [(section, name) for section in _SECTIONS])
