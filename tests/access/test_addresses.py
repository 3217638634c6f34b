"""Special and metadata addresses in all their forms, and entries of the list of addresses."""

from __future__ import annotations

from ipaddress import ip_address

import pytest

from specviz.access.addresses import (
    is_metadata,
    is_metadata_name,
    is_special,
    literal_address,
    parse_listed,
)

METADATA = [
    "169.254.169.254", "169.254.170.2", "fd00:ec2::254", "100.100.100.200", "192.0.0.192",
    "168.63.129.16", "::ffff:169.254.169.254", "::ffff:a9fe:a9fe", "64:ff9b::a9fe:a9fe",
    "64:ff9b:1::a9fe:a9fe", "2002:a9fe:a9fe::1", "::a9fe:a9fe",
]  # fmt: skip
SPECIAL = [
    *METADATA[:5], "127.0.0.1", "127.255.0.1", "0.0.0.0", "10.1.2.3", "172.16.0.1", "192.168.1.1",
    "169.254.1.1", "100.64.0.1", "198.18.0.1", "192.0.2.1", "224.0.0.1", "255.255.255.255",
    "240.0.0.1", "::", "::1", "fe80::1", "fc00::1", "fd12::1", "fec0::1", "ff02::1", "2001:db8::1",
    "::ffff:127.0.0.1", "::ffff:10.0.0.1", "64:ff9b::7f00:1", "2002:7f00:1::", "::7f00:1",
    "2001:0:4136:e378:8000:63bf:80ff:fffe",  # Teredo of 127.0.0.1
]  # fmt: skip
PUBLIC = ["8.8.8.8", "1.1.1.1", "2606:4700:4700::1111", "::ffff:8.8.8.8", "64:ff9b::808:808"]


@pytest.mark.parametrize("address", METADATA)
def test_metadata_addresses(address: str) -> None:
    assert is_metadata(ip_address(address))


@pytest.mark.parametrize("address", SPECIAL)
def test_special_addresses(address: str) -> None:
    assert is_special(ip_address(address))


@pytest.mark.parametrize("address", PUBLIC)
def test_public_addresses(address: str) -> None:
    assert not is_special(ip_address(address))
    assert not is_metadata(ip_address(address))


@pytest.mark.parametrize(
    "host",
    ["127.0.0.1", "127.1", "127.0.1", "2130706433", "0x7f000001", "0x7f.1", "0177.0.0.1",
     "017700000001", "0x7f.0x0.0x0.0x1", "127.0.0.1.", "0X7F.0.0.1"],
)  # fmt: skip
def test_forms_of_an_ipv4_address(host: str) -> None:
    assert str(literal_address(host)) == "127.0.0.1"


@pytest.mark.parametrize("host", ["::1", "[::1]", "::1%eth0", "[::1%25lo]"])
def test_forms_of_an_ipv6_address(host: str) -> None:
    assert str(literal_address(host)) == "::1"


@pytest.mark.parametrize("host", ["localhost", "dead.beef", "x", "a.1", "", "1.2.3.4.5", "face"])
def test_names(host: str) -> None:
    assert literal_address(host) is None


@pytest.mark.parametrize(
    "host",
    ["metadata.google.internal", "METADATA.google.internal.", "a.metadata.google.internal",
     "metadata", "instance-data"],
)  # fmt: skip
def test_metadata_names(host: str) -> None:
    assert is_metadata_name(host)


@pytest.mark.parametrize(
    ("entry", "covered", "not_covered"),
    [
        ("gpu.example", ["http gpu.example 80", "https GPU.example. 8443"],
         ["http x.gpu.example 80", "http gpu.example.evil 80", "http 1.2.3.4 80"]),
        ("gpu.example:8000", ["http gpu.example 8000"], ["http gpu.example 80"]),
        ("https://gpu.example", ["https gpu.example 443"], ["http gpu.example 443"]),
        ("*.gpu.example", ["http a.gpu.example 1", "http a.b.gpu.example 1"],
         ["http gpu.example 1", "http evilgpu.example 1"]),
        ("10.0.0.0/24", ["http 10.0.0.9 1", "http 0xa000009 1", "http ::ffff:10.0.0.9 1"],
         ["http 10.0.1.9 1", "http gpu.example 1"]),
        ("127.0.0.1:8000", ["http 127.1 8000", "http 2130706433 8000"],
         ["http localhost 8000", "http 127.0.0.1 8001"]),
        ("[::1]:8000", ["http ::1 8000"], ["http ::1 80", "http ::2 8000"]),
        ("fd00::/8", ["http fd12::1 80"], ["http fe80::1 80"]),
        ("localhost", ["http localhost 1", "http LOCALHOST. 1"], ["http a.localhost 1"]),
    ],
)  # fmt: skip
def test_entries(entry: str, covered: list[str], not_covered: list[str]) -> None:
    listed = parse_listed(entry)
    for places, expected in ((covered, True), (not_covered, False)):
        for place in places:
            scheme, host, port = place.split()
            assert listed.covers_host(scheme, host, int(port)) == expected, place


@pytest.mark.parametrize(
    "entry",
    ["", "http://", "*", "*.", "http://a/v1", "a/24", "10.0.0.1/24", "user@a", "a?b", "a#b",
     "ftp://a", "a:b", "a:0x50", "fe80::1%eth0", "ä.example", "a b", "169.254.169.254",
     "http://[fd00:ec2::254]", "metadata.google.internal", "2852039166", "a..b/"],
)  # fmt: skip
def test_entries_that_are_refused(entry: str) -> None:
    with pytest.raises(ValueError):
        parse_listed(entry)
