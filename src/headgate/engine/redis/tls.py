"""TLS: which servers are trusted, and with which certificate the client shows itself."""

from __future__ import annotations

import ssl
from typing import Any, NamedTuple

from headgate.errors import ConfigError


class Tls(NamedTuple):
    """As the URL says it. `ca` None trusts what the system trusts; `check_host` False leaves the host's name out."""

    ca: str | None = None
    cert: str | None = None
    key: str | None = None
    check_host: bool = True

    def context(self) -> ssl.SSLContext:
        """How to check the server's certificate, and what to show of our own."""
        context = _trusting(self.ca)
        context.check_hostname = self.check_host
        if self.cert is not None:
            try:
                context.load_cert_chain(self.cert, self.key)
            except OSError as error:
                raise ConfigError(
                    f"the certificate ?cert={self.cert} with ?key={self.key or self.cert} cannot be used: {error}"
                ) from None
        return context

    def options(self) -> dict[str, Any]:
        """The same for redis-py. What cannot be read is found here, where it can be said."""
        self.context()
        return {
            "ssl": True, "ssl_ca_certs": self.ca, "ssl_certfile": self.cert, "ssl_keyfile": self.key,
            "ssl_check_hostname": self.check_host,
        }  # fmt: skip


def _trusting(ca: str | None) -> ssl.SSLContext:
    try:
        return ssl.create_default_context(cafile=ca)
    except OSError as error:
        raise ConfigError(f"the certificates to trust, ?ca={ca}, cannot be read: {error}") from None


def untrusted(error: BaseException) -> str | None:
    """What to do about an error, where it is for certain about certificates or the want of TLS."""
    text = str(error)
    if "mismatch, certificate is not valid for" in text:
        return "its certificate is for another host; name it as its certificate does, or leave names out by ?verify=ca"
    if "certificate has expired" in text:
        return "its certificate has expired"
    if "CERTIFICATE_VERIFY_FAILED" in text:
        return "its certificate is not trusted; name the certificates to trust by ?ca=file"
    if "WRONG_VERSION_NUMBER" in text:
        return "it does not speak TLS on this port; write redis:// instead of rediss://"
    return None


def guess(error: BaseException, tls: Tls | None) -> str:
    """What may be the matter with a server that hangs up, or says nothing, when it is spoken to in TLS or without."""
    text = str(error)
    if tls is None:
        hung_up = any(sign in text for sign in ("reset by peer", "closed by server"))
        return f"{text}; is it a port for TLS? Then write rediss://" if hung_up else text
    if tls.cert is None and any(sign in text for sign in ("closed", "EOF", "reset", "certificate required")):
        return f"{text}; does it ask for a client certificate? Name it by ?cert=file&key=file"
    if "imeout" in text:
        return f"{text}; is it a port for TLS?"
    return text
