"""The client's address: that of the connection or, behind trusted proxies, from X-Forwarded-For."""

from __future__ import annotations

import ipaddress
from collections.abc import Sequence

from starlette.datastructures import Headers

from regard.errors import UserError

Address = ipaddress.IPv4Address | ipaddress.IPv6Address


class ClientAddresses:
    def __init__(self, trusted: Sequence[str]):
        try:
            self.trusted = [ipaddress.ip_network(proxy.strip(), strict=False) for proxy in trusted]
        except ValueError as error:
            raise UserError(f"trusted proxies are IP addresses, such as 10.0.0.7 or 10.0.0.0/8: {error}") from None

    def of(self, client: tuple[str, int] | None, headers: Headers) -> str:
        """The client's address as a string. IPv6 is reduced to the /64, which is what one customer gets."""
        host = client[0] if client else ""
        address = _address(host)
        if address is None:
            return host
        if self.trusted:
            # Each proxy appends the address it was called from, so those before the last untrusted one may be forged.
            claimed = [part for value in headers.getlist("x-forwarded-for") for part in value.split(",")]
            while self._is_trusted(address) and claimed:
                before = _address(claimed.pop().strip())
                if before is None:
                    break
                address = before
        if address.version == 4:
            return str(address)
        return str(ipaddress.IPv6Network((address, 64), strict=False))

    def _is_trusted(self, address: Address) -> bool:
        return any(address in network for network in self.trusted)


def _address(text: str) -> Address | None:
    try:
        address = ipaddress.ip_address(text)
    except ValueError:
        return None
    return (address.ipv4_mapped or address) if isinstance(address, ipaddress.IPv6Address) else address
