"""Text about a serving engine, shared by the pages and the terminal."""

from __future__ import annotations

from specviz.record.server_run import ServerInfo

SPECULATES = {True: "speculates", False: "does not speculate", None: "may speculate"}


def reported_and_missing(info: ServerInfo) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the names of the values that an engine reports, and of the values that it does not."""
    able = info.capabilities
    # If only rounds are listed, they may come from the chunks alone. Whether the engine also
    # reports counts is known only after an answer.
    perhaps = "" if able.totals or not able.rounds else " (if enabled at the engine's start)"
    reports = {
        "token ids": able.token_ids,
        f"counts of drafted and accepted candidates per answer{perhaps}": able.totals
        or able.rounds,
        f"counts of drafted and accepted candidates per round{perhaps}": able.rounds,
        "counters of all requests": able.counters,
        "log-probabilities of a given text": able.prompt_laws,
    }
    never = (
        "rejected tokens", "draft and target probabilities", "random draws",
        "times of drafting and verification",
    )  # fmt: skip
    reported = tuple(name for name, does in reports.items() if does)
    return reported, (*(name for name, does in reports.items() if not does), *never)


def sent_words(*, characters: int, answers: int, tokens: int, address: str) -> str:
    """Return text on what a request sends to an engine, such as "1 prompt of 80 characters, …"."""
    wanted = f"an answer of at most {tokens:,} tokens"
    if answers != 1:
        wanted = f"{answers} answers of at most {tokens:,} tokens each"
    return f"1 prompt of {characters:,} characters, for {wanted}, to {address}"
