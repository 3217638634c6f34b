"""A key goes only to its address, and nothing that an engine sends shows it."""

from __future__ import annotations

import json
import time
from dataclasses import replace

import pytest

from specviz.errors import ServerError
from specviz.record.server_run import (
    EngineName,
    ServerRound,
)
from specviz.servers import SERVER_KEY, ask, find_server
from specviz.servers.foreign_json import KeyRemover
from tests.servers.hostile_engines import (
    ESCAPED,
    KEY,
    LIMITS,
    PATHS,
    SETTINGS,
    answered,
    info_of,
    piece,
    pieces_of,
    raw,
)
from tests.servers.replaying import Page, events_page, served

pytestmark = pytest.mark.usefixtures("bounded")


# The key


@pytest.mark.usefixtures("with_key")
@pytest.mark.parametrize("engine", ["vllm", "openai"])
@pytest.mark.parametrize("cuts", [(), (9,), (8, 10, 14, 20), tuple(range(1, 24))])
def test_removes_an_echoed_key(engine: EngineName, cuts: tuple[int, ...]) -> None:
    with served({PATHS[engine]: events_page(pieces_of(f"so it {KEY} is sk-0", *cuts))}) as server:
        answer = ask(info_of(engine, server.address), "Once", SETTINGS, limits=LIMITS)
        shown = ""
        for entry in answer:
            shown += "".join(entry.texts)
            assert KEY not in shown
            assert KEY not in answer.trace().text
    trace = answer.trace()
    assert trace.text == shown == "so it [key] is sk-0"
    assert KEY not in repr(trace)
    assert KEY[:10] not in repr(trace)


SPELLED = {
    "upper": KEY.upper(),
    "json": ESCAPED,
    "nested": ESCAPED.replace("\\", "\\\\\\"),
    "percent": "".join(f"%25{ord(each):02X}" for each in KEY),
    "html": "".join(f"&#x{ord(each):x};" for each in KEY),
}


@pytest.mark.usefixtures("with_key")
@pytest.mark.parametrize("size", [2, 5])
@pytest.mark.parametrize("spelling", SPELLED)
def test_finds_an_escaped_key_across_chunks(spelling: str, size: int) -> None:
    text = f"so {SPELLED[spelling]} end"
    events = pieces_of(text, *range(size, len(text), size))
    settings = replace(SETTINGS, max_new_tokens=500)
    with served({PATHS["openai"]: events_page(events)}) as server:
        answer = ask(info_of("openai", server.address), "Once", settings, limits=LIMITS)
        shown = "".join(text for entry in answer for text in entry.texts)
    assert shown == answer.trace().text == "so [key] end"


def test_searches_the_key_in_linear_time() -> None:
    remover, began = KeyRemover(KEY), time.thread_time()
    for text in ("\\" * 10**6, "s" * 10**6, "%25" * 10**5, f"{KEY} " * 10**4):
        remover.from_text(text)
    rounds = [ServerRound(index=0, texts=(KEY * 100,), num_tokens=1, at=0.0)] * 1000
    assert all(each.texts == ("[key]" * 100,) for each in remover.from_rounds(rounds, over=True))
    assert time.thread_time() - began < 5


@pytest.mark.parametrize("spelled", [r"ab\/cd\"efgh", "%61b%2fcd%22efgh", 'AB/CD"EFGH'])
def test_finds_json_escaped_characters_in_a_key(spelled: str) -> None:
    for before in ("so ", "so \\"):
        assert KeyRemover('ab/cd"efgh').from_text(f"{before}{spelled}.") == f"{before}[key]."


@pytest.mark.usefixtures("with_key")
@pytest.mark.parametrize("space", [" " * 9990, "x" * 9990])
def test_truncated_error_has_no_part_of_the_key(space: str) -> None:
    _, failure = answered("openai", Page(status=500, body=f"{space}{KEY}{space}".encode()))
    assert KEY[:3] not in failure


def test_removes_a_key_split_over_tokens() -> None:
    texts = ["so ", KEY[:7], KEY[7:], "!"]
    assert KeyRemover(KEY).from_tokens(texts) == ("so ", "[key]", "", "!")


@pytest.mark.usefixtures("with_key")
def test_removes_token_ids_with_the_key() -> None:
    listed = {"tokens": [KEY[:9], KEY[9:], "!"], "token_logprobs": [-1.0, -1.0, -1.0]}
    event = piece(f"{KEY}!", token_ids=[1, 2, 3], logprobs=listed)
    trace, _ = answered("vllm", events_page([event]))
    (entry,) = trace.rounds
    assert (entry.texts, entry.token_ids, entry.logprobs) == (("[key]!",), (), ())
    assert entry.num_tokens == 3


@pytest.mark.usefixtures("with_key")
@pytest.mark.parametrize(
    "body",
    [
        f'{{"error": {{"message": "bad {ESCAPED}"}}}}',
        f'{{"error": {{"{ESCAPED}": "x"}}}}',
        json.dumps({"error": f'{{"message": "bad {ESCAPED}"}}'}),
        json.dumps({"detail": [f"bad {KEY}"]}),
        f"<html>{KEY}</html>",
        f'{{"error": "cut short {ESCAPED}',
        '{"message": "' + "x" * 280 + f'{KEY}"}}',
    ],
)
@pytest.mark.parametrize("status", [400, 500])
def test_errors_do_not_contain_the_key(body: str, status: int) -> None:
    for page in (Page(status=status, body=body.encode()), raw(f'{{"error": {json.dumps(body)}}}')):
        trace, failure = answered("openai", page)
        assert failure
        for text in (failure, repr(trace)):
            assert KEY not in text
            assert ESCAPED not in text
            assert KEY[:12] not in text


@pytest.mark.usefixtures("with_key")
def test_names_and_redirects_do_not_contain_the_key() -> None:
    models = {"data": [{"id": f"model-{KEY}"}]}
    with served({"/v1/models": Page(body=json.dumps(models).encode())}) as server:
        assert find_server(server.address).model == "model-[key]"
    location = "http://127.0.0.1:1/%73k-0123456789abcdef"
    with served({"/v1/models": Page(status=302, headers={"Location": location})}) as server:
        with pytest.raises(ServerError, match="redirects") as caught:
            find_server(server.address)
        assert KEY[1:] not in str(caught.value)


# Which address gets the key


ADDRESSES = {
    "": [],
    "http://127.0.0.1:8000": ["http://127.0.0.1:8000", "http://127.0.0.1:8000/v1"],
    "https://api.example.com": ["https://api.example.com", "https://api.example.com:443/v1"],
    "https://example.com/one": ["https://example.com/one"],
    "api.example.com": ["https://api.example.com", "https://api.example.com:444"],
    "*.example.com": ["https://api.example.com", "https://api.example.com:444"],
    "127.0.0.1": ["http://127.0.0.1:8000", "http://127.0.0.1:9"],
    "localhost:9, 127.0.0.1:9": ["http://127.0.0.1:9"],
}
ASKED = [
    "http://127.0.0.1:8000", "http://127.0.0.1:9", "http://localhost:8000",
    "https://api.example.com", "http://api.example.com", "https://api.example.com:444",
    "https://example.com", "https://example.com/one", "https://example.com/onetwo",
    "https://badexample.com", "https://api.example.com.evil.org",
]  # fmt: skip


@pytest.mark.parametrize("bound", ADDRESSES)
def test_sends_a_key_only_to_its_address(bound: str, monkeypatch: pytest.MonkeyPatch) -> None:
    from specviz.servers.address import checked_address, key_for, withheld_key

    monkeypatch.setenv(SERVER_KEY, KEY)
    monkeypatch.setenv(f"{SERVER_KEY}_FOR", bound)
    expected = {checked_address(each, allow_remote=True) for each in ADDRESSES[bound]}
    asked = {checked_address(each, allow_remote=True) for each in [*ASKED, *ADDRESSES[bound]]}
    given = {each for each in asked if key_for(SERVER_KEY, each) == KEY}
    assert given == expected
    for address in asked - given:
        assert key_for(SERVER_KEY, address) is None
        assert f"{SERVER_KEY}_FOR" in withheld_key(SERVER_KEY, address)
        assert KEY not in withheld_key(SERVER_KEY, address)
    for address in given:
        assert withheld_key(SERVER_KEY, address) == ""


@pytest.mark.parametrize(
    "address",
    [
        "https://example.com/one/../two", "https://example.com/one/%2e%2e/two",
        "https://example.com/one%2f..%2ftwo", "https://example.com/one/%252e%252e/two",
        "https://example.com/one\\..\\two", "https://evil.org\\.localhost", "https://a;b.localhost",
    ],
)  # fmt: skip
def test_rejects_addresses_with_dot_segments(address: str) -> None:
    from specviz.servers.address import checked_address

    with pytest.raises(ServerError, match="is not an"):
        checked_address(address, allow_remote=True)


@pytest.mark.parametrize(
    "entry", ["*.", "::1", "me:secret@example.org", "https://*.example.org/.."]
)
def test_names_but_does_not_show_an_invalid_entry(
    entry: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    from specviz.servers.address import key_for

    monkeypatch.setenv(SERVER_KEY, KEY)
    monkeypatch.setenv(f"{SERVER_KEY}_FOR", f"127.0.0.1,{entry}")
    with pytest.raises(ServerError, match=f"{SERVER_KEY}_FOR is not an address") as caught:
        key_for(SERVER_KEY, "https://evil.org.")
    assert "secret" not in str(caught.value)


def test_explains_why_an_address_gets_no_key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(SERVER_KEY, KEY)
    monkeypatch.setenv(f"{SERVER_KEY}_FOR", "https://api.example.com")
    with served({"/v1/models": Page(status=401)}) as server:
        with pytest.raises(ServerError, match="No key is sent to") as caught:
            find_server(server.address)
        assert f"{SERVER_KEY}_FOR={server.address}" in caught.value.remedy
    assert all("Authorization" not in headers for _, headers in server.asked)


def test_trace_keeps_the_requested_settings() -> None:
    """An engine cannot change the requested settings in the trace."""
    trace, _ = answered("openai", events_page([piece("a", finish_reason="stop")]))
    assert trace.settings == SETTINGS
    assert replace(trace.info, address="") == replace(info_of("openai"), address="")
