"""The replay file, parsed as text and as HTML."""

from __future__ import annotations

import json
import re
from base64 import b64encode
from dataclasses import replace
from hashlib import sha256
from html.parser import HTMLParser
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from specviz.comparison import compare
from specviz.comparison.plan import SuiteItem
from specviz.player.player_source import replay_source
from specviz.player.replay import (
    comparison_html,
    comparison_replay_html,
    replay_html,
    script_json,
)
from specviz.record.pairs import pair_title
from tests.comparison.synthetic import make_plan, run_of
from tests.player.races import thrifty, wasteful
from tests.traces import full_trace, make_prompt

HOSTILE = ["</script><script>alert(1)</script>", "<!--<script>", "\u2028\u2029", "\u202ex", "&lt;"]


class Parts(HTMLParser):
    """The elements of a page, and the text of its scripts."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.links: list[str] = []
        self.policy = ""
        self.scripts: list[str] = []
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        self.tags.append(tag)
        self.links += [value or "" for name, value in attrs if name in ("src", "href")]
        if given.get("http-equiv") == "Content-Security-Policy":
            self.policy = given["content"] or ""

    def handle_data(self, data: str) -> None:
        if self.tags and self.tags[-1] == "script" and data.strip():
            self.scripts.append(data)


def data_in(page: str) -> Any:
    return json.loads(Parts(page).scripts[0])


@pytest.mark.parametrize("name", ["a <b>name</b>", ""])
def test_the_title_has_the_name_of_the_run_and_the_pair(name: str) -> None:
    trace = full_trace()
    title = data_in(replay_html(trace, name=name))["about"]["title"]
    assert title == (f"{name}: {trace.facts.name}" if name else trace.facts.name)


def test_the_policy_allows_one_script_and_no_request() -> None:
    parts = Parts(replay_html(full_trace()))
    digest = b64encode(sha256(parts.scripts[1].encode()).digest()).decode()
    policy = dict(each.strip().split(" ", 1) for each in parts.policy.split(";"))
    assert policy["script-src"] == f"'sha256-{digest}'"
    assert policy["default-src"] == "'none'"
    assert set(policy) == {
        "default-src", "script-src", "style-src", "img-src", "base-uri", "form-action",
    }  # fmt: skip


def test_the_page_requests_nothing() -> None:
    page = replay_html(full_trace())
    assert Parts(page).links == []
    script, style = replay_source()
    assert not re.search(r"https?://(?!www\.w3\.org/2000/svg)", script)
    assert not re.search(r"url\(|@import", style)
    assert not re.search(r"\bimport\b *\(|\bfetch\(|XMLHttpRequest|WebSocket", script)


def test_the_player_weighs_less_than_a_megabyte() -> None:
    page = replay_html(full_trace())
    assert len(page.encode()) - len(Parts(page).scripts[0]) < 1_000_000


@given(st.text(st.characters(), max_size=40))
@settings(max_examples=60, deadline=None)
def test_any_text_round_trips_as_data(text: str) -> None:
    written = script_json({"text": text})
    assert json.loads(written)["text"] == text
    assert written.isascii()
    assert not set("<>&") & set(written)


@pytest.mark.parametrize("text", HOSTILE)
def test_hostile_text_adds_no_element(text: str) -> None:
    quiet = Parts(replay_html(full_trace())).tags
    prompt = replace(make_prompt(), text=text, token_texts=(text,) * 4)
    trace = replace(full_trace(), prompt=prompt, created=text)
    trace = replace(trace, pair=replace(trace.pair, name=text))
    page = replay_html(trace, name=text)
    assert Parts(page).tags == quiet
    assert data_in(page)["player"]["prompt"] == [text] * 4
    assert data_in(page)["about"]["title"] == f"{text}: {pair_title(text)}"


def test_a_comparison_has_its_verdict_and_table() -> None:
    table = [["lane", "τ"], ["thrifty", "4.0"], ["<b>wasteful", "1.0"]]
    labels, verdict = ["thrifty", "<b>wasteful"], "No <i>difference."
    page = comparison_replay_html(labels, [thrifty(), wasteful()], verdict=verdict, table=table)
    about = data_in(page)["about"]
    assert (about["verdict"], about["table"]) == (verdict, table)
    assert [lane["label"] for lane in data_in(page)["player"]["race"]["lanes"]] == labels
    assert Parts(page).tags.count("b") == Parts(page).tags.count("i") == 0


def test_a_comparison_has_its_settings_and_legend() -> None:
    plan = make_plan(2, 8, repeats=2, items=[SuiteItem(prompt="Once  upon\na <b>time")])
    runs = [run_of(plan, job) for job in plan.runs()]
    facts = data_in(comparison_html(compare(plan, runs), runs))["about"]["facts"]
    assert facts[0] == "“Once upon a <b>time” · T 0.7 · seeds 0–1 · at most 128 tokens · 2 repeats"
    assert facts[1].startswith("4 runs: one prompt, 2 repeats")
    assert "mean with its 95 % interval over repeats" in facts[2]
    assert "★ marks the best value if its range overlaps no other" in facts[2]


def test_refuses_non_finite_numbers() -> None:
    with pytest.raises(ValueError, match="JSON"):
        script_json(float("nan"))
