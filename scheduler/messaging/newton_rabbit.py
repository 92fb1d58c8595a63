# SPDX-FileCopyrightText: 2026 The Berthmaster authors
# SPDX-License-Identifier: Apache-2.0
"""The address of RabbitMQ as nova.conf had it up to Newton (14), where transport_url is not set.

oslo.messaging has dropped these options, and would take a broker at localhost instead.
"""

from pathlib import Path
from string import Template
from urllib.parse import quote

from oslo_config import cfg

from conf import loading

GROUP = "oslo_messaging_rabbit"
_SECTIONS = (GROUP, "DEFAULT")
_WITH_TLS = "?ssl=1"
# Options of files for TLS, as they are called now and as they were.
_TLS_FILES = {
    "ssl_ca_file": "kombu_ssl_ca_certs",
    "ssl_cert_file": "kombu_ssl_certfile",
    "ssl_key_file": "kombu_ssl_keyfile",
}


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
    # The former default, which many files have. What else follows a $ is found by oslo.config.
    hosts = Template(text("hosts", "$rabbit_host:$rabbit_port")).safe_substitute(
        rabbit_host=host, rabbit_port=text("port", "5672")
    )
    brokers = ",".join(f"{account}@{each.strip()}" for each in hosts.split(",") if each.strip())
    is_tls = text("use_ssl", "false").lower() in ("true", "1", "yes", "on")
    query = _WITH_TLS if is_tls else ""
    path = quote(text("virtual_host", "/").removeprefix("/"), "")
    return f"rabbit://{brokers}/{path}{query}", next(iter(found.values())).file


def set_tls_files(conf: cfg.ConfigOpts) -> None:
    """Use the files for TLS if the URL asks for it; raise ConfigError for one that cannot be read.

    Without that of the authorities no certificate of a broker would be verified.
    """
    if not transport_url(conf)[0].endswith(_WITH_TLS):
        return
    for name, former in _TLS_FILES.items():
        if not (found := _setting(conf, former)):
            continue
        path = found.text.strip()
        try:
            with Path(path).open("rb"):
                conf.set_default(name, path, GROUP)
        except OSError as error:
            raise loading.ConfigError(
                f"option [{found.section}] {former} = {path} in {found.file}: cannot be read:"
                f" {error.strerror}"
            ) from None


def _setting(conf: cfg.ConfigOpts, name: str) -> loading.Setting | None:
    return loading.setting(conf, [(section, name) for section in _SECTIONS])
