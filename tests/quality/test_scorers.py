"""Scorers against direct computations with transformers, and refused reward models."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers as hf

from specviz.engine import speculate
from specviz.engine.model.chat import encode_prompt
from specviz.engine.model.pair import Pair
from specviz.errors import ConfigError, SpecvizError
from specviz.quality.scorers import (
    AnswerText,
    LikelihoodStudy,
    RewardStudy,
    plain,
    recorded_distance,
    scorer_named,
)
from specviz.record.conversations import Conversation, Message
from specviz.record.trace import RunConfig
from tests.engine.models import small_tokenizer, tiny_config
from tests.traces import make_candidate, make_round, make_trace

PROMPT = "the cat"
TEMPLATE = "{% for m in messages %}<{{ m.role }}>{{ m.content }}{% endfor %}"


@pytest.fixture(scope="module")
def texts(pair: Pair) -> tuple[AnswerText, ...]:
    prompt = tuple(encode_prompt(pair, PROMPT, chat=False))
    made: list[AnswerText] = []
    for seed in range(3):
        config = RunConfig(temperature=1.0, max_new_tokens=9, seed=seed, ignore_eos=True)
        ids = tuple(t for entry in speculate(pair, list(prompt), config) for t in entry.emitted)
        text = pair.token_table.join(ids)
        made.append(
            AnswerText(prompt=PROMPT, prompt_ids=prompt, token_ids=ids, text=text, chat=False)
        )
    return tuple(made)


def test_the_likelihood_is_the_mean_over_the_texts_own_tokens(
    pair: Pair, folder: Path, texts: tuple[AnswerText, ...]
) -> None:
    model = hf.AutoModelForCausalLM.from_pretrained(folder / "target").eval()
    found = list(LikelihoodStudy(texts=texts, own=True).find(pair))
    for score, each in zip(found, texts, strict=True):
        ids = torch.tensor([[*each.prompt_ids, *each.token_ids]])
        with torch.inference_mode():
            log_probs = model(ids).logits[0].log_softmax(-1)
        start = len(each.prompt_ids)
        expected = [float(log_probs[at - 1, ids[0, at]]) for at in range(start, ids.shape[1])]
        assert score == pytest.approx(sum(expected) / len(expected), abs=1e-4)


def test_a_prompt_in_the_cache_changes_no_score(pair: Pair, texts: tuple[AnswerText, ...]) -> None:
    other = replace(texts[1], prompt_ids=texts[1].prompt_ids[::-1])
    mixed = (texts[0], other, texts[1], texts[2], texts[0])
    alone = [
        score for each in mixed for score in LikelihoodStudy(texts=(each,), own=True).find(pair)
    ]
    assert list(LikelihoodStudy(texts=mixed, own=True).find(pair)) == alone
    assert len(set(alone)) == 4


def test_another_model_reads_the_text_with_its_own_tokenizer(
    pair: Pair, texts: tuple[AnswerText, ...]
) -> None:
    (first, *_) = texts
    (found,) = LikelihoodStudy(texts=(first,), own=False).find(pair)
    again = AnswerText(
        prompt=first.prompt,
        prompt_ids=first.prompt_ids,
        token_ids=tuple(pair.tokenizer(first.text, add_special_tokens=False)["input_ids"]),
        text=first.text,
        chat=False,
    )
    assert [found] == list(LikelihoodStudy(texts=(again,), own=True).find(pair))


def reward_folder(folder: Path, *, template: str | None = None, **changes: Any) -> Path:
    config = tiny_config("llama", num_hidden_layers=1, **({"num_labels": 1} | changes))
    config.pad_token_id = 0
    torch.manual_seed(4)
    hf.LlamaForSequenceClassification(config).save_pretrained(folder)
    small_tokenizer(chat_template=template).save_pretrained(folder)
    return folder


@pytest.mark.parametrize("template", [None, TEMPLATE])
def test_a_reward_model_scores_prompt_and_text(
    pair: Pair, texts: tuple[AnswerText, ...], tmp_path: Path, template: str | None
) -> None:
    folder = reward_folder(tmp_path, template=template)
    found = list(RewardStudy(texts=texts, model=str(folder)).find(pair))
    model = hf.AutoModelForSequenceClassification.from_pretrained(folder).eval()
    tokenizer = hf.AutoTokenizer.from_pretrained(folder)
    assert len(set(found)) == len(texts)
    for score, each in zip(found, texts, strict=True):
        if template is None:
            read = tokenizer(PROMPT, each.text, return_tensors="pt")
        else:
            chat = f"<user>{PROMPT}<assistant>{each.text}"
            read = tokenizer(chat, add_special_tokens=False, return_tensors="pt")
        with torch.inference_mode():
            expected = float(model(**read).logits[0, 0])
        assert score == pytest.approx(expected, abs=1e-5)


def test_a_classifier_with_several_outputs_is_refused(
    pair: Pair, texts: tuple[AnswerText, ...], tmp_path: Path
) -> None:
    folder = reward_folder(tmp_path, num_labels=3)
    with pytest.raises(SpecvizError, match="3 outputs"):
        next(RewardStudy(texts=texts, model=str(folder)).find(pair))


def test_a_causal_model_is_refused_because_its_score_would_be_random(
    pair: Pair, texts: tuple[AnswerText, ...], folder: Path
) -> None:
    with pytest.raises(SpecvizError, match="not a reward model"):
        next(RewardStudy(texts=texts, model=str(folder / "target")).find(pair))


def test_a_missing_folder_is_refused_in_one_line(
    pair: Pair, texts: tuple[AnswerText, ...], tmp_path: Path
) -> None:
    with pytest.raises(SpecvizError) as refused:
        next(RewardStudy(texts=texts, model=str(tmp_path / "nothing")).find(pair))
    assert "\n" not in str(refused.value)


def test_the_recorded_distance_is_the_mean_bias_of_tested_and_bonus_tokens() -> None:
    lossy = RunConfig(rule="over-accept", epsilon=0.2)
    biased = (
        make_candidate("a", token_id=5, overlap=0.6, bias=0.3),
        make_candidate("r", token_id=6, overlap=0.6, bias=0.1),
        make_candidate("d", token_id=7, overlap=0.6, bias=0.9),  # never tested
    )
    first = replace(make_round("ard"), candidates=biased)
    assert recorded_distance(make_trace([first], config=lossy)) == pytest.approx(0.2)
    lossless = recorded_distance(make_trace([make_round("aa")]))
    assert lossless == 0.0


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("likelihood", ("likelihood", "")),
        ("distance", ("distance", "")),
        ("model:a/b", ("likelihood", "a/b")),
        ("reward:/x:y", ("reward", "/x:y")),
        ("judge:http://127.0.0.1:8080", ("judge", "http://127.0.0.1:8080")),
    ],
)
def test_scorers_are_named(text: str, found: tuple[str, str]) -> None:
    assert scorer_named(text) == found


@pytest.mark.parametrize("text", ["", "judge", "judge:", "reward: ", "quality", "likelihood:x"])
def test_other_names_are_refused(text: str) -> None:
    with pytest.raises(ConfigError, match="no scorer"):
        scorer_named(text)


def test_a_conversation_becomes_lines_with_roles() -> None:
    asked = Conversation(before=(Message(role="system", content="Be brief."),), text="Hello")
    assert plain(asked) == "system: Be brief.\nuser: Hello"
