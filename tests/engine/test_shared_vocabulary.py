"""Pairs of two vocabularies: the target's distribution, their step and their notices."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tokenizers import Tokenizer, models
from transformers import PreTrainedTokenizerFast

from specviz.cli import main
from specviz.engine import Pair, check_pair, speculate
from specviz.engine.decoding.drafting import ModelDrafter
from specviz.engine.decoding.proposal import Proposal
from specviz.engine.decoding.sampling import Draws, Sampler, make_chooser
from specviz.engine.decoding.scoring import score_text
from specviz.engine.decoding.speculation import Speculation
from specviz.engine.loading.compatibility import take_step_weights
from specviz.engine.loading.shared_vocabulary import LEAST_SHARE, covered_share
from specviz.engine.model.library_step import LibraryStep
from specviz.engine.model.shared_tokens import SharedTokens, make_token_vocabulary, share_tokens
from specviz.engine.model.translated_step import TranslatedStep
from specviz.errors import ConfigError, PairError
from specviz.record.pairs import PairSpec, spec_of
from specviz.record.run_config import RunConfig
from tests.engine import oracle
from tests.engine.asking import load, refusal
from tests.engine.models import generated, pair_of, tiny_model, write_model
from tests.engine.test_lossless import ENOUGH, p_value
from tests.engine.two_vocabularies import (
    bytes_of,
    kin,
    load_two,
    sharing,
    tokenizers,
    two_models,
)

PROMPT = "Once upon a time, naïve dogs ran 🙂 to the"
KINDS = (("words", "other words"), ("words", "pieces"), ("pieces", "words"))
DEPTH = 3
SEED = 1  # of a target that emits all its tokens
LETTERS = (1, 2, 3)  # a b c


# -- the distribution, with vocabularies small enough to enumerate every text


def letters(words: Sequence[str]) -> PreTrainedTokenizerFast:
    """Without spaces, an unshared token makes the draft read the whole text again."""
    merges = [(word[0], word[1]) for word in words if len(word) == 2]
    tokenizer = Tokenizer(
        models.BPE({word: index for index, word in enumerate(words)}, merges, unk_token=None)
    )
    end = "</s>"
    tokenizer.add_special_tokens([end])
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, eos_token=end)


@cache
def tiny_pair() -> Pair:
    """Seven tokens and six; the target's "bc" and "ca" and the draft's "cb" are not shared."""
    target, draft = (
        letters(["</s>", "a", "b", "c", "ab", "bc", "ca"]),
        letters(["b", "c", "ab", "</s>", "cb", "a"]),
    )
    shared = share_tokens(make_token_vocabulary(target, 7), make_token_vocabulary(draft, 6), None)
    shape: dict[str, Any] = {"hidden_size": 16, "intermediate_size": 32, "num_hidden_layers": 1}
    heads: dict[str, Any] = {"num_attention_heads": 2, "num_key_value_heads": 2}
    model = tiny_model(vocabulary=7, sigma=0.35, seed=SEED, **shape, **heads)
    own = kin(model, shared)
    pair = pair_of(model, None, step="lean")
    pair.tokenizer, pair.token_table = target, shared.target.table
    weights, _ = take_step_weights({"draft": own}, {"draft": 6}, "lean")
    pair.draft, pair.draft_weights, pair.shared = own, weights["draft"], shared
    return pair


@cache
def target_distribution() -> np.ndarray:
    """The distribution of the first tokens, by the target's passes over whole texts."""
    model: Any = tiny_pair().target

    def conditional(prefix: oracle.Prefix) -> np.ndarray:
        with torch.inference_mode():
            logits = model(torch.tensor([[*LETTERS, *prefix]])).logits[0, -1].numpy()
        return oracle.processed(logits, 1.0, 0, 1.0)

    return np.array(list(oracle.target_joint(conditional, DEPTH, 7).values()))


class Unnormalised(ModelDrafter):
    """Draws from the shared tokens but reports unnormalised probabilities."""

    mass = 0.6  # as if unshared tokens had the rest

    def propose(
        self, history: Sequence[int], count: int, draws: Draws, hidden: torch.Tensor | None
    ) -> Proposal:
        made = super().propose(history, count, draws, hidden)
        return replace(made, probs=made.probs * self.mass)


def sampled(count: int, *, broken: bool = False, **settings: Any) -> np.ndarray:
    """Cells of the first tokens of runs with different seeds."""
    pair, cells = tiny_pair(), np.empty(count, dtype=np.int64)
    for seed in range(count):
        config = RunConfig(
            **{"gamma": 3, "temperature": 1.0, "max_new_tokens": 8, "record": False}
            | {"ignore_eos": True, "seed": seed} | settings
        )  # fmt: skip
        drafter = None
        if broken:
            choose = make_chooser(config, Sampler(config))
            drafter = Unnormalised(pair.draft_step(32), choose, pair.vocabulary)
        run = Speculation(pair, LETTERS, config, drafter=drafter)
        while len(run.emitted) < DEPTH:
            next(run)
        cells[seed] = np.array(run.emitted[:DEPTH]) @ (49, 7, 1)
    return cells


METHODS: dict[str, dict[str, Any]] = {
    "chain": {},
    "block": {"rule": "block"},
    "coupled": {"rule": "coupled"},
    "tree": {"branching": (3, 2, 1)},
}


@pytest.mark.parametrize(
    ("method", "count"),
    [
        ("chain", 600),
        *(pytest.param(method, 1_500, marks=pytest.mark.thorough) for method in METHODS),
    ],
)
def test_the_first_tokens_follow_the_targets_distribution(method: str, count: int) -> None:
    assert p_value(sampled(count, **METHODS[method]), target_distribution()) > ENOUGH


@pytest.mark.thorough
def test_detects_an_unnormalised_distribution() -> None:
    assert p_value(sampled(600, broken=True), target_distribution()) < 1e-6


def test_the_tiny_pair_emits_shared_and_unshared_tokens() -> None:
    """An assumption of the tests above: every case occurs."""
    shared, distribution = tiny_pair().shared, target_distribution()
    assert shared is not None
    assert shared.to_draft == {0: 3, 1: 5, 2: 0, 3: 1, 4: 2}
    first = distribution.reshape(7, -1).sum(1)
    assert first[[5, 6]].sum() > 0.1
    assert first[[1, 2, 3, 4]].sum() > 0.1


# -- the step


def bare_logits(pair: Pair, shared: SharedTokens, own_ids: list[int]) -> torch.Tensor:
    """The draft's own logits after its own tokens."""
    model: Any = pair.draft
    with torch.inference_mode():
        return model(torch.tensor([own_ids])).logits[0, -1, : shared.draft.size].float()


@pytest.fixture(scope="module", params=KINDS, ids=" reads as ".join)
def two(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Pair:
    return load_two(two_models(tmp_path_factory.mktemp("two"), *request.param))


def test_a_step_gives_the_drafts_distribution_over_shared_tokens(two: Pair) -> None:
    shared = two.shared
    assert shared is not None
    step = two.draft_step(200)
    ids = two.tokenizer(PROMPT)["input_ids"]
    step.feed(torch.tensor(ids[:-1]), 0)
    distribution = step.feed(torch.tensor(ids[-1:]), 1).softmax(-1)[0]
    own = bare_logits(two, shared, shared.draft.tokenizer(PROMPT)["input_ids"])
    kept = own[list(shared.to_draft.values())].softmax(-1)
    assert torch.allclose(distribution[list(shared.to_draft)], kept, atol=1e-5)
    others = [each for each in range(two.vocabulary) if each not in shared.to_draft]
    assert others
    assert not distribution[others].any()


def test_many_rows_equal_single_rows(two: Pair) -> None:
    generator = torch.Generator().manual_seed(0)
    tokens = torch.randint(two.vocabulary, (24,), generator=generator)
    at_once = two.draft_step(200).feed(tokens, 24)
    step = two.draft_step(200)
    singly = torch.cat([step.feed(token[None], 1) for token in tokens])
    assert torch.allclose(at_once, singly, atol=1e-4)


def test_forgotten_tokens_leave_no_trace(two: Pair) -> None:
    generator = torch.Generator().manual_seed(1)
    tokens = torch.randint(two.vocabulary, (30,), generator=generator)
    step = two.draft_step(200)
    step.feed(tokens[:20], 1)
    step.forget(9)
    step.feed(tokens[20:], 3)
    step.forget(10)
    assert step.length == 11
    again = step.feed(tokens[11:16], 5)
    fresh = two.draft_step(200)
    fresh.feed(tokens[:11], 1)
    assert torch.allclose(again, fresh.feed(tokens[11:16], 5), atol=1e-4)


def test_kept_nodes_of_a_tree_are_text(two: Pair) -> None:
    shared = two.shared
    assert shared is not None
    first, second, third = list(shared.to_draft)[20:23]
    step, plain = two.draft_step(200), two.draft_step(200)
    for each in (step, plain):
        each.feed(torch.tensor(two.tokenizer(PROMPT)["input_ids"]), 1)
    step.branch(torch.tensor([first, second]), [-1, -1])
    grown = step.branch(torch.tensor([third]), [1])
    step.keep([1, 2])
    assert step.length == plain.length + 2
    assert torch.allclose(grown, plain.feed(torch.tensor([second, third]), 1), atol=1e-4)
    more = torch.tensor([first])
    assert torch.allclose(step.feed(more, 1), plain.feed(more, 1), atol=1e-4)


def test_beyond_its_window_a_draft_reads_the_latest_tokens(two: Pair) -> None:
    """A short window costs acceptance, but the text stays correct."""
    wide = two.shared
    assert wide is not None
    narrow = SharedTokens(
        target=wide.target, draft=wide.draft, to_draft=wide.to_draft, draft_context=64 + 20
    )
    model: Any = two.draft
    step = TranslatedStep(lambda _: LibraryStep(model, wide.draft.size), narrow, 200)
    ids = two.tokenizer(PROMPT * 4)["input_ids"]
    step.feed(torch.tensor(ids[:-1]), 0)
    distribution = step.feed(torch.tensor(ids[-1:]), 1)[0]
    own = wide.draft.tokenizer(PROMPT * 4)["input_ids"]
    found = [
        torch.allclose(
            distribution[list(wide.to_draft)],
            bare_logits(two, wide, own[-count:])[list(wide.to_draft.values())],
            atol=1e-4,
        )
        for count in range(1, len(own) + 1)
    ]
    assert len(own) > 20
    assert 10 <= found.index(True) + 1 <= 20


# -- whole runs


@pytest.mark.parametrize("settings", [{}, {"branching": (2, 2)}, {"rule": "match"}])
def test_greedy_texts_match_generate(two: Pair, settings: dict[str, Any]) -> None:
    config = RunConfig(temperature=0.0, gamma=4, max_new_tokens=48, ignore_eos=True, **settings)
    run = speculate(two, PROMPT, config)
    assert any(entry.num_accepted < entry.num_drafted for entry in list(run))
    assert run.emitted == generated(two.target, two.tokenizer(PROMPT)["input_ids"], 48)


def test_drafts_only_shared_tokens_but_emits_any(two: Pair) -> None:
    shared = two.shared
    assert shared is not None
    config = RunConfig(temperature=1.0, max_new_tokens=120, ignore_eos=True)
    rounds = list(speculate(two, PROMPT, config))
    drafted = {each.token_id for entry in rounds for each in entry.candidates}
    assert sum(entry.num_accepted for entry in rounds) > 5
    assert drafted <= set(shared.to_draft)
    assert not {token for entry in rounds for token in entry.emitted} <= set(shared.to_draft)
    insights = [each.insight for entry in rounds for each in entry.candidates if each.insight]
    assert all(0.1 < each.draft_entropy < np.log(shared.count) for each in insights)


def test_scored_odds_match_those_of_the_run(two: Pair) -> None:
    """The draft reads a scored text as it did during generation."""
    config = RunConfig(temperature=1.0, max_new_tokens=60, ignore_eos=True, seed=3)
    run = speculate(two, PROMPT, config)
    rounds = list(run)
    scores = score_text(two, run.prompt.token_ids, run.emitted, [config])[0]
    place, compared = 0, 0
    for entry in rounds:
        for at, each in enumerate(entry.candidates[: entry.num_accepted]):
            wanted = min(1.0, each.draft_prob / each.target_prob)
            assert scores.odds[place + at] == pytest.approx(wanted, rel=1e-3)
            compared += 1
        place += len(entry.emitted)
    assert compared > 5


# -- notices and errors


def test_notes_the_shared_tokens(tmp_path: Path) -> None:
    folder = two_models(tmp_path, "words", "pieces")
    pair, shared = load_two(folder), sharing("words", "pieces")
    assert pair.info.shared_tokens == shared.count
    assert pair.info.vocabulary == 700
    assert f"{shared.count} tokens are shared" in pair.notices[0]
    assert f"{100 * covered_share(shared):.0f} %" in pair.notices[0]
    assert spec_of(pair.info).shared_vocabulary
    target, draft = (str(folder / role) for role in ("target", "draft"))
    found = check_pair(PairSpec(target=target, draft=draft, shared_vocabulary=True))
    assert (found.shared_tokens, found.vocabulary) == (shared.count, 700)
    assert found.notices == pair.notices[: len(found.notices)]


def test_equal_tokenizers_need_no_sharing(llama: Path) -> None:
    pair = load(llama, shared_vocabulary=True)
    assert pair.shared is None
    assert pair.info.shared_tokens is None


def test_rejects_two_tokenizers_and_names_the_option(tmp_path: Path) -> None:
    message = refusal(PairError, two_models(tmp_path, "words", "other words"))
    assert "different tokenizers" in message
    assert "--shared-vocabulary yes" in message


def bytes_alone(folder: Path) -> Path:
    """A draft whose vocabulary is only bytes."""
    write_model(folder / "target", tiny_model(vocabulary=700), tokenizers()["words"])
    draft = bytes_of(257, end="</s>")
    write_model(folder / "draft", tiny_model(vocabulary=len(draft)), draft)
    return folder


def test_rejects_too_few_shared_tokens_with_the_numbers(tmp_path: Path) -> None:
    message = refusal(PairError, bytes_alone(tmp_path), shared_vocabulary=True)
    assert (
        "257 tokens are shared. These are 37 % of the target's 700 tokens and 100 % of the draft's "
        "257. They cover"
    ) in message
    percent = int(message.split(" % of the target's tokens")[0].rsplit(" ", 1)[1])
    assert 0 < percent < 100 * LEAST_SHARE


def test_the_command_line_exits_with_2(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = bytes_alone(tmp_path)
    places = [f"--target={folder / 'target'}", f"--draft={folder / 'draft'}"]
    assert main(["run", *places, "--shared-vocabulary=yes", "Once"]) == 2
    assert "too little in common: 257 tokens are shared" in capsys.readouterr().err


def test_rejects_a_shared_vocabulary_without_a_draft(llama: Path) -> None:
    message = refusal(PairError, llama, draft=None, shared_vocabulary=True)
    assert "--shared-vocabulary needs a draft" in message


def test_shared_vocabulary_is_yes_or_no() -> None:
    with pytest.raises(ConfigError, match="shared_vocabulary is 'maybe'"):
        PairSpec(shared_vocabulary="maybe")  # type: ignore[arg-type]
