"""The card of a trained draft states data, settings, figures and the target's licence."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import gguf
import pytest

from specviz.errors import TrainingError
from specviz.training.drafts.card import (
    NOT_STATED,
    TargetFacts,
    draft_card,
    licence_of,
    write_draft_card,
)
from specviz.training.drafts.plan import TextPlan, TrainingPlan
from specviz.training.drafts.progress import TextFigures, TrainedDraft
from specviz.training.drafts.serving import vllm_command
from tests.servers.real_engines import PAIR

PLAN = TrainingPlan(
    texts=TextPlan(count=256, longest=192, seed=5), vocabulary=2048, steps=300, rate=5e-3, seed=3
)
TEXTS = TextFigures(
    texts=227, tokens=36072, ended=0.511, repetition=0.1032, repeated=29, covered=0.957
)
RESULT = TrainedDraft(
    folder="draft", step=280, accepted=(0.6306, 0.5951), agreeing=(0.6174, 0.5932), expected=1.2
)
TARGET = TargetFacts(name="maker/target", licence="apache-2.0")


def test_a_card_states_data_settings_and_figures() -> None:
    card = draft_card(PLAN, TEXTS, RESULT, TARGET)
    for part in (
        "# EAGLE-3 head for `maker/target`",
        "227 texts (36,072 tokens) on its own",
        "at most 192 tokens",
        "The seed is 5. 29 repetitions of another text were left out. A text is held out",
        "| texts that the target ended itself | 51.1 % |",
        "| tokens that the draft can propose | 95.7 % |",
        "| vocabulary | 2,048 most frequent tokens |",
        "| steps | 300 (best weights: step 280) |",
        "| seed | 3 |",
        "python -m specviz train --target maker/target --out FOLDER --texts 256 --longest 192 "
        "--vocabulary 2048 --steps 300 --seed 3\n",
        "| 1 | 0.631 | 0.617 |",
        "| 2 | 0.595 | 0.593 |",
    ):
        assert part in card, part
    assert card.startswith("---\nlicense: apache-2.0\n")


def test_texts_without_an_answer_are_counted() -> None:
    fewer = draft_card(PLAN, replace(TEXTS, texts=200), RESULT, TARGET)
    assert "left out. 27 texts ended without an answer and were left out." in fewer


def test_prompts_layers_and_whole_vocabularies_are_named() -> None:
    prompts = replace(PLAN.texts, prompts=("one", "two"))
    card = draft_card(replace(PLAN, kind="small", texts=prompts, layers=2), TEXTS, RESULT, TARGET)
    assert "as answers to 2 prompts" in card
    assert "| layers | 2 |" in card
    assert "| vocabulary | 2,048 most frequent tokens |" in card
    assert "--export gguf" in card
    assert "| vocabulary | all |" in draft_card(replace(PLAN, vocabulary=0), TEXTS, RESULT, TARGET)


def test_a_chat_models_tasks_are_stated() -> None:
    chat = replace(TARGET, chats=True)
    assert "About 50 % of the texts answer tasks" in draft_card(PLAN, TEXTS, RESULT, chat)
    without = replace(PLAN, texts=replace(PLAN.texts, task_share=0.0))
    card = draft_card(without, TEXTS, RESULT, chat)
    assert "on its own, without prompts. Half" in card
    assert "--task-share 0.0 " in card


def test_commands_are_part_of_the_card() -> None:
    command = vllm_command("maker/target", Path("/d"), "eagle3", 3)
    card = draft_card(PLAN, TEXTS, RESULT, TARGET, [command])
    assert f"In vLLM:\n\n```\n{command.text}\n```" in card


def test_without_a_licence_the_card_says_so() -> None:
    card = draft_card(PLAN, TEXTS, RESULT, TargetFacts(name="t"))
    assert "state no licence" in card
    assert "license:" not in card


def test_foreign_names_cannot_change_the_card() -> None:
    name = 'x`\n# A heading\n---\n<img src="http://a.b/c">$(rm)'
    card = draft_card(PLAN, TEXTS, RESULT, TargetFacts(name=name))
    assert "# A heading" not in card.splitlines()
    assert not set("<>$()") & set(card.splitlines()[4])
    run = next(line for line in card.splitlines() if line.startswith("python -m specviz run"))
    assert "$(" not in run


@pytest.mark.parametrize(
    ("front", "licence"),
    [
        ("---\nlicense: mit\nlanguage: en\n---\n# T", "mit"),
        ("---\nlicense: other\nlicense_name: llama3.2\n---\n", "llama3.2"),
        ('---\nlicense: "apache-2.0"\n---\n', "apache-2.0"),
        ("---\nlanguage: en\n---\nlicense: mit\n", NOT_STATED),
        ("license: mit\n", NOT_STATED),
        ("---\nlicense: |\n  <script>\n---\n", NOT_STATED),
        ("---\nlicense: - a\n---\n", NOT_STATED),
    ],
)
def test_the_licence_is_read_from_the_targets_card(
    front: str, licence: str, tmp_path: Path
) -> None:
    (tmp_path / "README.md").write_text(front)
    assert licence_of(tmp_path) == licence


def test_the_licence_is_read_from_gguf_metadata(tmp_path: Path) -> None:
    for name, licence in (("with", "apache-2.0"), ("without", "")):
        writer: Any = gguf.GGUFWriter(tmp_path / f"{name}.gguf", "llama")
        if licence:
            writer.add_license(licence)
        writer.write_header_to_file()
        writer.write_kv_data_to_file()
        writer.close()
        assert licence_of(tmp_path / f"{name}.gguf") == (licence or NOT_STATED)
    (tmp_path / "damaged.gguf").write_bytes(b"GGUF")
    for missing in ("damaged.gguf", "none.gguf", "none", ""):
        assert licence_of(tmp_path / missing) == NOT_STATED


def test_the_embedded_targets_licence_is_known() -> None:
    assert licence_of(PAIR / "target") == "mit"


def test_the_card_is_written_beside_the_weights(tmp_path: Path) -> None:
    made = write_draft_card(PLAN, TEXTS, replace(RESULT, folder=str(tmp_path)), TARGET)
    assert made == tmp_path / "README.md"
    assert made.read_text(encoding="utf-8") == draft_card(PLAN, TEXTS, RESULT, TARGET)
    with pytest.raises(TrainingError, match=r"README\.md cannot be written"):
        write_draft_card(PLAN, TEXTS, replace(RESULT, folder=str(tmp_path / "none")), TARGET)
