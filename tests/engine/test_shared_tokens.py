"""Two vocabularies are matched one to one, special tokens and bytes included."""

from __future__ import annotations

from tokenizers import Tokenizer, models
from transformers import PreTrainedTokenizerFast

from specviz.engine.model.shared_tokens import TokenVocabulary, make_token_vocabulary, share_tokens
from tests.engine.two_vocabularies import sharing


def marked(end: str, *marks: str) -> TokenVocabulary:
    """Two letters and these special tokens."""
    model = Tokenizer(models.BPE({end: 0, "a": 1, "b": 2}, [], unk_token=None))
    model.add_special_tokens([end, *marks])
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=model, eos_token=end)
    return make_token_vocabulary(tokenizer, len(tokenizer))


def paired(target: TokenVocabulary, draft: TokenVocabulary) -> set[tuple[str, str]]:
    shared = share_tokens(target, draft, None)
    return {(target.table.text(a), draft.table.text(b)) for a, b in shared.to_draft.items()}


def test_each_mark_is_paired_once() -> None:
    """The ends of text come first, although another mark has the name of each."""
    letter = {("a", "a"), ("b", "b")}
    plain, more = marked("<end>"), marked("<end>", "</s>", "<pad>")
    other = marked("</s>", "<end>", "<pad>")
    assert paired(more, marked("</s>")) == letter | {("<end>", "</s>")}
    assert paired(plain, other) == letter | {("<end>", "</s>")}
    assert paired(more, other) == letter | {("<end>", "</s>"), ("<pad>", "<pad>")}
    assert paired(more, more) == letter | {(each, each) for each in ("<end>", "</s>", "<pad>")}


def test_an_end_of_text_beyond_the_vocabulary_is_not_shared() -> None:
    model = Tokenizer(models.BPE({"a": 0, "b": 1, "</s>": 2}, [], unk_token=None))
    model.add_special_tokens(["</s>"])
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=model, eos_token="</s>")
    whole, short = (make_token_vocabulary(tokenizer, size) for size in (3, 2))
    assert share_tokens(whole, whole, None).to_draft == {0: 0, 1: 1, 2: 2}
    for target, draft in ((whole, short), (short, whole)):
        assert share_tokens(target, draft, None).to_draft == {0: 0, 1: 1}


def test_a_byte_has_one_token_in_each_vocabulary() -> None:
    """A byte token of "pieces" is shared only if no other token has its byte."""
    shared = sharing("words", "pieces")
    drafted = shared.draft.tokenizer.convert_ids_to_tokens(list(shared.to_draft.values()))
    assert len(set(drafted)) == shared.count
    assert "a" in drafted
    assert not {"<0x61>", "<0x20>"} & set(drafted)
    assert "<0x01>" in drafted
