"""The key of a person: their e-mail address."""

from __future__ import annotations

_LONGEST_ADDRESS = 254  # characters, the limit of RFC 5321


def person_key(address: object) -> str | None:
    """Return an e-mail address in lower case; None if it is not a plain address.

    Only A to Z become lower case. Some other letters, such as the Kelvin sign, would become ASCII
    letters, so the result could be somebody else's address.
    """
    if not isinstance(address, str) or not 3 <= len(address) <= _LONGEST_ADDRESS:
        return None
    key = "".join(each.lower() if each.isascii() else each for each in address)
    name, at, domain = key.partition("@")
    plain = key.isprintable() and not any(each in key for each in ' ,;<>"*')
    return key if at and name and domain and "@" not in domain and plain else None
