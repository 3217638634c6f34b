"""Sessions on the server: who is logged in, for how long, and who ends it."""

from __future__ import annotations

from threading import Thread

import pytest

from specviz.access.sessions import Session, Sessions
from tests.access.clock import Clock


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def sessions(clock: Clock) -> Sessions:
    return Sessions(clock)


def opened(sessions: Sessions, secret: str) -> Session:
    session = sessions.of_cookie(secret)
    assert session is not None
    return session


def test_a_session_has_a_person_and_no_role(sessions: Sessions) -> None:
    session = opened(sessions, sessions.open("ada@uni.example", seconds=60))
    assert session.person == "ada@uni.example"
    assert (session.expires - session.issued) == 60
    assert not hasattr(session, "role")


def test_the_secret_is_long_and_is_not_kept(sessions: Sessions) -> None:
    secrets = {sessions.open("a@b.example", seconds=60) for _ in range(50)}
    assert len(secrets) == 50
    assert all(len(each) >= 43 for each in secrets)
    assert not any(secret in repr(vars(sessions)) for secret in secrets)


def test_what_ends_a_session_elsewhere_is_not_in_its_text(sessions: Sessions) -> None:
    secret = sessions.open("a@b.example", seconds=60, identity=(("name", "signed"),))
    session = opened(sessions, secret)
    assert session.leaving not in repr(session)
    assert "signed" not in repr(session)


@pytest.mark.parametrize("secret", ["", "x", "ä", "\udcff", "a" * 100_000])
def test_nothing_else_opens_a_session(sessions: Sessions, secret: str) -> None:
    session = opened(sessions, sessions.open("a@b.example", seconds=60))
    for each in (secret, session.handle, session.leaving):
        assert sessions.of_cookie(each) is None
    assert sessions.find(None) is None


def test_a_session_expires(sessions: Sessions, clock: Clock) -> None:
    secret = sessions.open("a@b.example", seconds=60)
    clock.time += 59.9
    assert sessions.of_cookie(secret) is not None
    clock.time += 0.1
    assert sessions.of_cookie(secret) is None
    assert sessions.all() == ()


def test_a_clock_set_back_far_ends_it(sessions: Sessions, clock: Clock) -> None:
    secret = sessions.open("a@b.example", seconds=60)
    clock.time -= 200
    assert sessions.of_cookie(secret) is not None
    clock.time -= 200
    assert sessions.of_cookie(secret) is None


def test_an_ended_session_cannot_be_used_again(sessions: Sessions) -> None:
    secret = sessions.open("a@b.example", seconds=60)
    handle = opened(sessions, secret).handle
    assert sessions.end(handle) is not None
    assert sessions.of_cookie(secret) is None
    assert sessions.end(handle) is None


def test_all_sessions_of_one_person_end(sessions: Sessions) -> None:
    mine = [sessions.open("a@b.example", seconds=60) for _ in range(3)]
    other = sessions.open("c@b.example", seconds=60)
    assert sessions.end_all_of("a@b.example") == 3
    assert not any(map(sessions.of_cookie, mine))
    assert sessions.of_cookie(other) is not None


def test_one_person_cannot_end_the_sessions_of_others(clock: Clock) -> None:
    sessions = Sessions(clock, most=10, each=3)
    other = sessions.open("c@b.example", seconds=60)
    mine = [sessions.open("a@b.example", seconds=60) for _ in range(20)]
    assert sessions.of_cookie(other) is not None
    assert [sessions.of_cookie(each) is not None for each in mine] == [False] * 17 + [True] * 3


def test_the_number_of_sessions_is_bounded(clock: Clock) -> None:
    sessions = Sessions(clock, most=10, each=3)
    for number in range(50):
        sessions.open(f"{number}@b.example", seconds=60)
    assert len(sessions.all()) == 10


def test_expired_sessions_make_room(clock: Clock) -> None:
    sessions = Sessions(clock, most=2)
    sessions.open("a@b.example", seconds=10)
    long = sessions.open("b@b.example", seconds=1000)
    clock.time += 20
    sessions.open("c@b.example", seconds=10)
    assert sessions.of_cookie(long) is not None


def test_many_threads_open_and_end_sessions(clock: Clock) -> None:
    sessions = Sessions(clock, most=10_000, each=1000)

    def work(name: str) -> None:
        for number in range(100):
            session = opened(sessions, sessions.open(name, seconds=60))
            if number % 2:
                sessions.end(session.handle)

    threads = [Thread(target=work, args=(f"{each}@b.example",)) for each in range(8)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert len(sessions.all()) == 400
