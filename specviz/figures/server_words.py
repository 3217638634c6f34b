"""What is said of a serving engine, the same on the page and in a terminal."""

from __future__ import annotations

from specviz.record.server_run import ServerInfo

SPECULATES = {True: "speculates", False: "does not speculate", None: "may speculate"}


def reported_and_missing(info: ServerInfo) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """What an engine tells, and what it keeps to itself."""
    able = info.capabilities
    # Rounds may follow from the pieces alone; whether more comes with them, an answer shows.
    perhaps = "" if able.totals or not able.rounds else " (if it was started to)"
    tells = {
        "the tokens' ids": able.token_ids,
        f"accepted and drafted of an answer{perhaps}": able.totals or able.rounds,
        f"accepted and drafted of every round{perhaps}": able.rounds,
        "counters of all it serves": able.counters,
        "log-probabilities of a text": able.prompt_laws,
    }
    never = (
        "rejected tokens", "the draft's and the target's probabilities", "the draws",
        "times of drafting and checking",
    )  # fmt: skip
    told = tuple(name for name, does in tells.items() if does)
    return told, (*(name for name, does in tells.items() if not does), *never)


def sent_words(*, characters: int, answers: int, tokens: int, address: str) -> str:
    """What goes to an engine, and how much of it, before it is sent."""
    asked = f"an answer of at most {tokens:,} tokens"
    if answers != 1:
        asked = f"{answers} answers of at most {tokens:,} tokens each"
    return f"1 prompt of {characters:,} characters, for {asked}, to {address}"
