"""No untrusted text is drawn as Markdown: checks every drawing call of the pages."""

from __future__ import annotations

import pytest

from tests.ui.drawn_words import Foreign, Reader
from tests.ui.syntax import module_of, read_modules

# Expressions that the checker cannot identify as trusted, and why they are.
OWN = {
    "specviz.ui.shell: page.title": "of the list of pages in the same file",
    "specviz.ui.shell: first.title": "of the list of pages in the same file",
    "specviz.ui.shell: escape(who)": "an e-mail address, escaped for HTML",
    "specviz.ui.shell: escape(log_out_link(session))": "a random number of the server",
    "specviz.ui.theory.claims.cards: each.source": "one of the three names in a Literal",
    "specviz.ui.theory.claims.cards: claim.latex": "a formula of the theory's code",
    "specviz.ui.theory.claims.cards: claim.symbols": "letters of that formula and their meanings",
    "specviz.ui.theory.claims.cards: recorded.found": "names of shipped tasks, and numbers",
    "specviz.ui.compare.results: row.name": "the table's own rows",
    "specviz.comparison.table: row.texts": "numbers with their units",
    "specviz.ui.compare.results: row.target": "a number with its unit",
    "specviz.ui.session.background_jobs: job.progress": "two numbers",
    "specviz.ui.widgets.pair_panel: expected.sentence": "words of this project, with numbers",
    "specviz.ui.compare.current: job.progress": "two numbers",
    "specviz.ui.compare.current: job.found": "a number",
    "specviz.ui.compare.results: alpha.label": "of the catalogue of figures",
    "specviz.ui.theory.speed.speedup_points: timed_interval: timed_pairs: "
    "m.speedup_pairs": "a count",
    "specviz.ui.theory.speed.speedup_points: each.label": "of the catalogue of figures",
    "specviz.ui.theory.speed.speedup_points: each.shown(figures)": "a number with its unit",
    "specviz.ui.theory.speed.speedup_points: each.help(figures)": "of the catalogue, with numbers",
    "specviz.ui.theory.misleading.sentences: serving.gpu.name": "of the GPUs that the theory knows",
    "specviz.ui.widgets.run_controls: forked.forks[-1].words": "a round and a place",
    "specviz.ui.learn.guess: game.feedback": "the lesson's own texts, with numbers",
    "specviz.ui.learn.guess: questions_of: trace.rounds": "a question, of which numbers are drawn",
    "specviz.ui.docs.chapters: parts_of: re.compile('!\\\\[(.*)\\\\]\\\\((.*)\\\\)')": "own",
    "specviz.ui.docs.chapters: parts_of: "
    "_LINK.sub('](docs?chapter=\\\\1\\\\2)', _source(chapter))": "own",
    "pages.bias: example.source": "of the examples in the theory's code",
    "pages.bias: example.labels": "of the examples in the theory's code",
}


def test_all_drawn_text_is_trusted_or_escaped() -> None:
    modules = read_modules()
    reader = Reader(modules, OWN)
    pages = [
        each for name, each in modules.items() if name.startswith(("specviz.ui.", "pages.", "app"))
    ]
    assert [str(each) for each in reader.foreign(pages)] == []
    assert set(OWN) == reader.used  # no unused entries


HEAD = """
import streamlit as st
from specviz.ui.widgets.plain_text import as_text, show_error
NAMES = {"a": "first"}

class Known:
    count: int
    name: str
"""


def found_in(body: str) -> list[Foreign]:
    module = module_of("specviz.ui.tried", HEAD + body)
    return Reader({module.name: module}, {}).foreign([module])


@pytest.mark.parametrize(
    "body",
    [
        "st.error(str(error))",
        "st.caption(f'{known.name} is loaded')",
        "st.button('Load', help=known.name)",
        "st.expander(known.name)",
        "st.progress(0.5, text=f':small[{known.name}]')",
        "st.segmented_control('Rule', names)",
        "st.table({'': [each.name for each in names]})",
        "name = st.text_input('Name')\nst.markdown(name)",
        "def show(words):\n    st.caption(words)\nshow(known.name)",
        "def words(known):\n    return f'{known.name}'\nst.caption(words(known))",
        "def show(words):\n    st.info(words)\ndef more(name):\n    show(name)\nmore(known.name)",
        "try:\n    pass\nexcept ValueError as error:\n    st.warning(f'No. {error}')",
        "for name, count in zip(names, [1]):\n    st.metric(name, count)",
    ],
)
def test_untrusted_text_is_found(body: str) -> None:
    assert found_in(body)


@pytest.mark.parametrize(
    "body",
    [
        "st.error(as_text(error))",
        "show_error(error)",
        "st.caption(f'{known.count} runs, {known.share:.2f}, {len(names)}')",
        "def runs(count: int) -> str:\n    return f'{count} runs'\nst.caption(runs(known.count))",
        "st.markdown('a' if known.name else 'b')",
        "st.segmented_control('Rule', names, format_func=as_text)",
        "def show(words):\n    st.caption(words)\nshow('own')\nshow(as_text(known.name))",
        "words = ['a'] + [as_text(each) for each in names]\nst.info(' '.join(words))",
        "for label, act in [('a', act), ('b', act)]:\n    st.button(label, on_click=act)",
        "st.markdown(NAMES[known.name])",
        "st.selectbox('Run', names)",
    ],
)
def test_trusted_text_is_accepted(body: str) -> None:
    assert found_in(body) == []
