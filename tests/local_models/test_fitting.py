"""Which models are offered as drafts for a target, and in which order."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from specviz.local_models.finding import find_models
from specviz.local_models.fitting import Fit, compare_tokenizers, drafts_for
from specviz.local_models.headers import Headers
from specviz.local_models.local_model import LocalModel
from specviz.record.pairs import memory_margin
from tests.engine.heads.tiny_heads import write_eagle3
from tests.formats.tiny_gguf import tiny_gguf

ALPHAS: dict[tuple[str, str], float] = {}


def fits(target: LocalModel, models: list[LocalModel], headers: Headers) -> list[Fit]:
    return list(drafts_for(target, models, headers, itemsize=4, memory_free=10**9, alphas=ALPHAS))


def larger(model: LocalModel, times: int) -> LocalModel:
    facts = replace(model.facts, parameters=times * model.facts.parameters)
    return replace(model, facts=facts)


def test_drafts_are_ranked_by_tokenizer_and_measured_acceptance(home: Path) -> None:
    folder = home / "own"
    folder.mkdir()
    for name, tokens in (("Same", 60), ("Nearly", 50), ("Other", 20)):
        tiny_gguf(folder / f"{name}.gguf", tokens=tokens)
    tiny_gguf(folder / "Target.gguf", tokens=60)
    models = {each.name: each for each in find_models([folder]).models}
    target = larger(models["Target"], 10)
    drafts = [models[name] for name in ("Other", "Nearly", "Same")]
    headers = Headers()

    unknown = fits(target, drafts, headers)
    assert [each.share for each in unknown] == [None, None, None]
    assert list(compare_tokenizers(target, drafts, headers)) == [3, 2, 1]
    known = fits(target, drafts, headers)
    assert [each.model.name for each in known] == ["Same", "Nearly"]  # "Other" shares too little
    assert known[0].same_tokenizer
    assert known[1].share == 50 / 60
    assert known[0].ratio > 9

    alphas = {(target.place, models["Nearly"].place): 0.7}
    measured = drafts_for(target, drafts, Headers(), itemsize=4, memory_free=10**9, alphas=alphas)
    assert [each.alpha for each in measured] == [None, 0.7]


def test_a_draft_that_does_not_fit_into_memory_comes_last(home: Path) -> None:
    models = {each.name: each for each in find_models().models}
    target, draft = larger(models["Tiny-F32"], 20), models["Tiny-F32"]
    draft = replace(draft, place="elsewhere")
    large = replace(larger(draft, 5), place="large")
    headers = Headers()
    alphas = {(target.place, "large"): 0.9}  # it would come first otherwise
    needed = (target.facts.parameters + draft.facts.parameters) * 4
    found = drafts_for(
        target,
        [large, draft],
        headers,
        itemsize=4,
        memory_free=memory_margin(needed),
        alphas=alphas,
    )
    assert [(each.model.place, each.fits) for each in found] == [
        ("elsewhere", True), ("large", False)
    ]  # fmt: skip


def test_larger_models_and_heads_are_no_drafts(home: Path) -> None:
    models = {each.name: each for each in find_models().models}
    target = models["Tiny-F32"]
    head = replace(
        target, place="head", facts=replace(target.facts, parameters=9, head="EAGLE head")
    )
    assert fits(target, [target, larger(target, 3), head], Headers()) == []


def test_a_head_is_offered_for_the_target_that_its_files_name(home: Path) -> None:
    folder = home / "heads"
    tiny_gguf(home / "Target.gguf", tokens=60)
    write_eagle3(folder / "own", layout="speculators")  # for maker/tiny-target
    models = {each.name: each for each in find_models([home / "Target.gguf", folder]).models}
    head = next(each for each in models.values() if each.facts.is_head)
    assert head.facts.head == "EAGLE head"
    assert head.facts.made_for == "maker/tiny-target"
    other = larger(next(each for each in models.values() if not each.facts.is_head), 10)
    target = replace(other, name="Maker/Tiny-Target")
    (found,) = fits(target, [head], Headers())
    assert found.same_tokenizer
    assert list(compare_tokenizers(target, [head], Headers())) == []  # it has no tokenizer
    assert fits(other, [head], Headers()) == []
    (again,) = [each for each in find_models([folder]).models if each.facts.is_head]
    assert again.facts == head.facts
