"""The texts that a target writes: alike alone and together, with turns, parts and figures."""

from __future__ import annotations

from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any

import pytest
import torch

from specviz.engine import Pair, decode_plainly
from specviz.engine.model.step_capabilities import AFTER_NORM, HiddenStates
from specviz.record.prompts import read_chat_prompts
from specviz.record.run_config import RunConfig
from specviz.training.drafts import batched_target, written_texts
from specviz.training.drafts.batched_target import BatchedTarget, Writing
from specviz.training.drafts.plan import TextPlan
from specviz.training.drafts.target_weights import TargetWeights
from specviz.training.drafts.tasks import task_of
from specviz.training.drafts.written_texts import Text, WrittenTexts, collect, read_texts
from tests.engine.models import pair_of, small_tokenizer, stir, tiny_model
from tests.training.drafts.tiny_training import TEXTS

CHAT = (
    "{% for m in messages %}<{{ m.role }}>{{ m.content }}</>{% endfor %}"
    "{% if add_generation_prompt %}<assistant>{% endif %}"
)


def pair_in(family: str, **changes: Any) -> Pair:
    return pair_of(stir(tiny_model(family, **changes)), None, step="lean")


def target_of(pair: Pair, longest: int = 64) -> BatchedTarget:
    return BatchedTarget(TargetWeights.of(pair).lean, pair.vocabulary, longest)


@pytest.mark.parametrize("family", ["llama", "qwen2", "qwen3", "mistral"])
def test_texts_written_together_are_those_written_alone(family: str) -> None:
    changes = {"sliding_window": 8} if family == "mistral" else {}
    pair = pair_in(family, **changes)
    prompts = [[5, 9, 3], [7], [8, 1, 2, 3, 4, 5, 6, 7, 8, 9], [11, 12]] * 3
    parts = [
        Writing(ids=list(ids), most=6 + i % 5, temperature=0.0, draws_by=(i,))
        for i, ids in enumerate(prompts)
    ]
    *_, count = target_of(pair).write(parts, pair.eos_ids, 5)
    assert count == sum(len(each.new) for each in parts)
    for part in parts:
        alone = decode_plainly(pair, part.ids, RunConfig(temperature=0.0, max_new_tokens=part.most))
        assert list(alone) == part.new


def test_long_texts_are_written_in_smaller_groups(monkeypatch: pytest.MonkeyPatch) -> None:
    """The cache of a text of 12 tokens has 2 layers × 2 key heads × 12 × 8 keys and values."""
    texts, pair = list[list[list[int]]](), pair_in("llama")
    for limit in (1 << 30, 3 * 2 * 2 * 2 * 12 * 8 * 4):
        monkeypatch.setattr(batched_target, "_CACHE_BYTES", limit)
        target = target_of(pair)
        asked, own = list[int](), target._cache

        def cache(count: int, rows: int, asked: list[int] = asked, own: Any = own) -> Any:
            asked.append(count)
            return own(count, rows)

        monkeypatch.setattr(target, "_cache", cache)
        parts = [Writing(ids=[5, i], most=10, temperature=0.0, draws_by=(i,)) for i in range(9)]
        assert list(target.write(parts, frozenset(), 8))
        texts.append([each.new for each in parts])
        assert asked == [8 if limit > 1 << 20 else 3]
    assert texts[0] == texts[1]


def test_drawn_texts_have_the_targets_distribution() -> None:
    pair = pair_in("llama", sigma=0.15)
    parts = [Writing(ids=[5, 9], most=1, temperature=0.8, draws_by=(i,)) for i in range(3000)]
    for _ in target_of(pair).write(parts, frozenset(), 500):
        pass
    step = pair.target_step(8)
    probs = (step.feed(torch.tensor([5, 9]), 1)[0] / 0.8).softmax(-1)
    drawn = torch.bincount(torch.tensor([each.new[0] for each in parts]), minlength=len(probs))
    expected = probs * len(parts)
    often = expected > 5
    rest = torch.stack([drawn[~often].sum(), expected[~often].sum()])
    chi = ((drawn[often] - expected[often]) ** 2 / expected[often]).sum()
    chi = chi + (rest[0] - rest[1]) ** 2 / rest[1].clamp(min=1e-9)
    freedom = int(often.sum())
    assert float(chi) < freedom + 4 * (2 * freedom) ** 0.5


def test_states_are_those_of_the_step() -> None:
    pair = pair_in("qwen3")
    ids, places = [5, 9, 3, 7, 2], (0, 1, 2, AFTER_NORM)
    step = pair.target_step(8)
    step.request_hidden(HiddenStates(places))
    step.feed(torch.tensor(ids), 1)
    assert step.hidden is not None
    padded = torch.tensor([[*ids, 0, 0], [1, 2, 3, 4, 5, 6, 7]])
    found = target_of(pair).states(padded, places)
    torch.testing.assert_close(found[0, :5].flatten(1), step.hidden, atol=1e-5, rtol=1e-4)


def chat_pair() -> tuple[Pair, int]:
    """Return a pair, and the token with which its template ends a turn."""
    pair = pair_in("llama", sigma=0.15)
    pair.tokenizer = small_tokenizer(chat_template=CHAT)
    end = pair.tokenizer("</>", add_special_tokens=False)["input_ids"][0]
    pair.eos_ids = frozenset(range(end, end + 40))  # so that turns end soon
    return pair, end


def test_an_interrupted_batch_goes_on_where_it_was_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pair, _ = chat_pair()
    plan = TextPlan(count=8, longest=80, turns=2, together=4)
    whole = [*collect(pair, target_of(pair, 256), plan, tmp_path / "whole")]
    monkeypatch.setattr(written_texts, "KEPT_EVERY", 0.0)
    written, sessions, folder = 0, 0, tmp_path / "parts"
    while not (folder / "texts-00000.safetensors").exists():
        *_, last = islice(collect(pair, target_of(pair, 256), plan, folder), 8)
        written += last.tokens
        sessions += 1
        assert sessions <= whole[-1].tokens
    assert sessions > 2
    found = [read_texts(plan, tmp_path / each).texts for each in ("whole", "parts")]
    assert [each.ids.tolist() for each in found[0]] == [each.ids.tolist() for each in found[1]]
    assert [each.ended for each in found[0]] == [each.ended for each in found[1]]
    assert written == whole[-1].tokens
    assert [each.name for each in folder.iterdir()] == ["texts-00000.safetensors"]


def test_a_chat_model_writes_both_sides_of_conversations(tmp_path: Path) -> None:
    pair, end = chat_pair()
    plan = TextPlan(count=40, longest=200, turns=3, task_share=0)
    for _ in collect(pair, target_of(pair, 256), plan, tmp_path):
        pass
    texts = read_texts(plan, tmp_path)
    first = pair.tokenizer("<user>", add_special_tokens=False)["input_ids"]
    assert len(texts.texts) > 20
    turns, ends = list[int](), 0
    for each in texts.texts:
        assert each.ids[: len(first)].tolist() == first
        assert not each.written[: len(first)].any()
        starts = (each.written[1:] & ~each.written[:-1]).sum()
        turns.append(int(starts))
        assert len(each.ids) <= plan.longest
        ends += int(((each.ids[1:] == end) & (each.ids[:-1] == end)).sum())
    assert ends == 0  # a turn that the target ended is not ended again
    assert max(turns) > 1
    assert min(turns) == 1


def test_a_chat_model_answers_tasks_about_passages_that_it_wrote(tmp_path: Path) -> None:
    pair, _ = chat_pair()
    plan = TextPlan(count=26, longest=250, task_share=1)
    for _ in collect(pair, target_of(pair, 250), plan, tmp_path):
        pass
    texts = read_texts(plan, tmp_path).texts
    asked = [pair.tokenizer.decode(each.ids[~each.written]) for each in texts]
    fixed = [task_of(plan.seed, number) for number in range(plan.count)]
    known = {each.prompt() for each in fixed if not each.has_passage}
    assert len(texts) > 20
    assert all(each.count("<user>") == 1 and each.endswith("<assistant>") for each in asked)
    alone = sum(each.removeprefix("<user>").split("</>")[0] in known for each in asked)
    assert 0 < alone < len(texts)
    for each in texts:
        assert len(each.ids) <= plan.longest
        begun = int(each.written.nonzero()[0])
        assert each.written[begun:].all()


def test_tasks_fill_all_their_slots() -> None:
    passage = 'Say "{x}" twice. Then stop.'
    drawn = [task_of(3, number) for number in range(1000)]
    assert drawn[:50] == [task_of(3, number) for number in range(50)]
    asks = {each.ask for each in drawn}
    assert len(asks) > 70
    for each in drawn:
        prompt = each.prompt(passage)
        assert "{" not in prompt.replace("{x}", "").replace('{"title"', "")
        assert (passage in prompt) is ("{passage}" in each.ask)
        assert each.has_passage is any(slot in each.ask for slot in ("{passage}", "{sentence}"))
        assert each.slots["language"] != each.slots["language_2"]
    (asked, *_) = (each for each in drawn if "{sentence}" in each.ask)
    assert "Mix all." in asked.prompt("1. Mix all. Bake it.")
    assert "Bake" not in asked.prompt("1. Mix all. Bake it.")
    shipped = {each.text for each in read_chat_prompts()}
    assert not shipped & {each.prompt() for each in drawn}


def test_a_target_that_never_ends_a_text_fills_the_length(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(written_texts, "STATES_OF", 4)
    pair = pair_in("llama")
    pair.eos_ids = frozenset()
    plan = replace(TEXTS, count=16)
    for _ in collect(pair, target_of(pair), plan, tmp_path):
        pass
    texts = read_texts(plan, tmp_path)
    assert texts.ended == 0
    assert {len(each.ids) for each in texts.texts} == {plan.longest}
    places = [(each.file, each.begin) for each in texts.texts]
    assert places == [(i // 4, i % 4 * plan.longest) for i in range(len(places))]
    assert places[-1][0] > 0


def test_prompts_are_answered_at_two_temperatures(tmp_path: Path) -> None:
    pair = pair_in("llama")
    plan = replace(TEXTS, count=16, prompts=("ab", "the cat"))
    for _ in collect(pair, target_of(pair), plan, tmp_path):
        pass
    texts = read_texts(plan, tmp_path)
    for prompt in plan.prompts:
        ids = pair.tokenizer(prompt)["input_ids"]
        answers = [each for each in texts.texts if each.ids[: len(ids)].tolist() == ids]
        assert len(answers) > 2
        assert all(not each.written[: len(ids)].any() for each in answers)
    assert texts.repeated > 0  # greedy answers to the same prompt


def test_parts_are_split_by_what_follows_the_shared_beginning() -> None:
    def text(*ids: int) -> Text:
        return Text(torch.tensor([1, 2, 3, *ids]), torch.ones(3 + len(ids), dtype=torch.bool), True)

    texts = WrittenTexts(tuple(text(n, n + 1, n + 2) for n in range(2000)), 0)
    training, held_out = texts.parts
    assert sorted(training + held_out) == list(range(2000))
    assert 0.03 < len(held_out) / 2000 < 0.07
    few = WrittenTexts(texts.texts[:3], 0)
    assert [len(part) for part in few.parts] == [2, 1]


def test_repetition_counts_runs_of_four() -> None:
    ids = torch.tensor([1, 2, 3, 4, 1, 2, 3, 4])
    texts = WrittenTexts((Text(ids, torch.ones(8, dtype=torch.bool), True),), 0)
    assert texts.repetition() == pytest.approx(1 / 5)
    assert texts.tokens == 8
