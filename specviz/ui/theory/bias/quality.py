"""The section "Quality": how often texts of lossy rules win against texts of the lossless rule.

The real pair writes the texts.
"""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Iterable
from functools import partial

import streamlit as st

from specviz import ASSETS
from specviz.access.roles import Action
from specviz.errors import SpecvizError
from specviz.figures.paired import Ratio
from specviz.quality.experiment import (
    CONTROL,
    EPSILONS,
    JUDGED_PAIRS,
    LOSSLESS,
    LOSSY_RULES,
    TEXTS,
    Experiment,
    experiment_of,
)
from specviz.quality.judge import PROMPT
from specviz.quality.quality_job import (
    QUALITY,
    QualityJob,
    Scoring,
    most_requests,
)
from specviz.quality.report import QualityReport, RuleResult, table_rows
from specviz.quality.scorers import Measure
from specviz.quality.sentences import other_sentences, rule_sentences
from specviz.quality.win_rates import WinRate
from specviz.record.drafters import first_method
from specviz.record.pairs import PairSpec
from specviz.record.prompts import SuiteItem
from specviz.record.run_config import RunConfig
from specviz.record.token_text import text_without_end
from specviz.store.dataclass_json import from_json
from specviz.store.rows import ComparisonRow
from specviz.ui.docs.chapters import chapter_link
from specviz.ui.servers.places import is_granted
from specviz.ui.session.background_jobs import (
    linked_job,
    put_shown,
    run_maker,
    shown_job,
    the_job_queue,
)
from specviz.ui.session.person import the_person
from specviz.ui.session.run_saving import the_library
from specviz.ui.session.worker import the_worker
from specviz.ui.theory.bias.win_rate_chart import RulePoint, win_rate_chart
from specviz.ui.tune.current import follow
from specviz.ui.watch.library_run import RUN_LINK
from specviz.ui.widgets.page_parts import show_chart, slider, whole_slider
from specviz.ui.widgets.pair_panel import active_spec, has_chat
from specviz.ui.widgets.plain_text import as_text, show_error
from specviz.ui.widgets.prompt_boxes import choose_items
from specviz.ui.widgets.recorded_example import show_example_caption

RECORDED = ASSETS / "recorded_win_rates.json"
_LINKED, _RULE = "query-params", "quality_rule"
_SHOWN = 60  # characters of a prompt in the list
_FEWEST = 2  # prompts that an interval needs
_LISTED = 100  # stored comparisons that are searched for experiments
_OFFERED = (0.02, 0.05, 0.1, 0.2, 0.3, 0.4, 0.6)
_SCORERS: dict[Measure, str] = {
    "likelihood": "likelihood",
    "distance": "recorded distance to the target",
    "reward": "reward model",
    "judge": "judge behind an address",
}
_BOXES: dict[Measure, str] = {"reward": "Reward model", "judge": "Address"}
_Start = Callable[[], None]
_Scorer = Callable[[], Scoring]
_BETTER = "Points further up and to the right are better."
_DIRECTION: dict[Measure, str] = {
    "likelihood": "A win is a higher likelihood, not a better text.",
    "distance": "Points further down and to the right are better.",
    "reward": _BETTER,
    "judge": _BETTER,
}
_HELP = (
    "Likelihood and distance do not measure quality: predictable texts have the highest "
    "likelihood, and the distance is the bias of the rule. A reward model or a judge rates quality."
)


def take_linked_experiment() -> bool:
    """Show the experiment that the link names; return whether the link names one."""
    job = linked_job()
    if not isinstance(job, QualityJob):
        return False
    put_shown(job)
    return True


def show_quality() -> None:
    if not the_person().may(Action.MEASURE):
        _show_recorded()
        return
    status = the_worker().status()
    spec = active_spec(status)
    chat = has_chat(status, spec)
    left, right = st.columns([5, 8], gap="medium")
    with left:
        start = _choose_experiment(spec, chat=chat)
        if st.button("Measure win rates", type="primary", key="quality_start"):
            try:
                start()
            except SpecvizError as problem:
                show_error(problem)
        _offer_earlier()
    with right:
        job = shown_job(QUALITY, QualityJob)
        if job is None:
            _show_recorded()
        else:
            follow(job, partial(_show_job, job))


def _choose_experiment(spec: PairSpec, *, chat: bool) -> _Start:
    """Draw the controls; return the function that the start button calls."""
    st.caption(
        f"The pair of this session ({as_text(spec.title)}) writes the texts. If needed, the pair "
        f"is loaded first. {chapter_link('quality')}"
    )
    epsilons = st.multiselect(
        "ε", _OFFERED, default=list(EPSILONS), key="quality_epsilons", bind=_LINKED
    )
    rules = st.multiselect(
        "Lossy rules", LOSSY_RULES, default=list(LOSSY_RULES), key="quality_rules", bind=_LINKED,
        help="Over-acceptance runs twice: once with recovered tokens from the residual (OPT), once "
        "with recovered tokens from the target (UNO).",
    )  # fmt: skip
    items, count = _choose_prompts(chat=chat)
    texts = whole_slider(
        "Texts per prompt and rule", 2, 12, TEXTS, key="quality_texts",
        hint="For each prompt, every text of a lossy rule is compared with every text of the "
        "lossless rule.",
    )  # fmt: skip
    temperature = slider("Temperature", 0.1, 2.0, 1.0, key="quality_temperature", step=0.1)
    length = whole_slider("Tokens per text", 16, 256, 64, key="quality_length")

    def experiment() -> Experiment:
        config = RunConfig(
            temperature=round(temperature, 1), max_new_tokens=length, chat=chat,
            drafter=first_method(spec.draft_kind).name,
        )  # fmt: skip
        return Experiment(
            spec=spec, config=config, items=_spread(items, count), epsilons=tuple(sorted(epsilons)),
            rules=tuple(rules), texts=texts,
        )  # fmt: skip

    scoring = _choose_scorer(experiment)
    try:
        st.caption(as_text(f"{experiment().size_words}. Stored texts are reused."))
    except SpecvizError as problem:
        show_error(problem)
    return lambda: _start(experiment(), scoring())


def _choose_prompts(*, chat: bool) -> tuple[tuple[SuiteItem, ...], int]:
    """Draw the choice of prompts; return a suite, and how many of its prompts to use."""
    try:
        _, items = choose_items("quality_suite", chat=chat)
    except SpecvizError as problem:
        show_error(problem)
        return (), 0
    if len(items) <= _FEWEST:
        return items, len(items)
    most = len(items)
    return items, whole_slider(
        "Number of prompts", _FEWEST, most, min(12, most), key="quality_prompts"
    )


def _start(experiment: Experiment, scoring: Scoring) -> None:
    job = QualityJob(experiment, scoring, run_maker(), the_library())
    the_job_queue().start(job)
    put_shown(job)


def _offer_earlier() -> None:
    """Draw the list of stored experiments, including those made on the command line."""
    try:
        newest = the_library().comparisons()[:_LISTED]
        rows = {each.key: each for each in newest if each.num_runs}
        stored = {key: experiment_of(row.plan_json) for key, row in rows.items()}
    except SpecvizError as problem:
        show_error(problem)
        return
    found = {key: each for key, each in stored.items() if each is not None}
    if not found:
        return
    key = st.selectbox(
        "Earlier experiments", list(found), index=None, key="quality_earlier",
        format_func=lambda key: _earlier_words(rows[key], found[key]),
        placeholder="Choose an experiment to open it",
        help="The experiment's texts are scored with the likelihood under the target. Missing "
        "texts are generated.",
    )  # fmt: skip
    if key is not None:
        st.button("Open", key="quality_open", on_click=_start, args=(found[key], Scoring()))


def _earlier_words(row: ComparisonRow, experiment: Experiment) -> str:
    when = row.created.replace("T", " ")[:16]
    pair = as_text(experiment.spec.title)
    return f"{when} UTC · {pair} · {len(experiment.items)} prompts · {row.num_runs} texts"


def _choose_scorer(experiment: Callable[[], Experiment]) -> _Scorer:
    """Draw the controls of the scorer; return a function that returns the chosen scorer."""
    measure: Measure = st.selectbox(
        "Scorer", [*_SCORERS], format_func=lambda each: _SCORERS[each],
        key="quality_scorer", help=_HELP,
    )  # fmt: skip
    name, prompt, pairs, granted = "", PROMPT, JUDGED_PAIRS, True
    if measure == "likelihood":
        name = st.text_input(
            "Under the model", key="quality_model", placeholder="the target itself",
            help="A folder or a model name on the Hub. Leave it empty to use the target.",
        )  # fmt: skip
    elif measure == "reward":
        name = st.text_input("Reward model", key="quality_reward", placeholder="folder or Hub name")
    elif measure == "judge":
        name = st.text_input("Address", key="quality_judge", placeholder="http://127.0.0.1:8080")
        prompt = st.text_area("Question", PROMPT, key="quality_question", height=200)
        pairs = whole_slider("Judged pairs per prompt", 1, 16, JUDGED_PAIRS, key="quality_pairs")
        granted = _is_granted(name, experiment, pairs)

    def scoring() -> Scoring:
        if measure in ("reward", "judge") and not name.strip():
            raise SpecvizError("The scorer has no name.", remedy=f"Fill in “{_BOXES[measure]}”.")
        if not granted:
            raise SpecvizError(
                "The requests to the judge are not confirmed.",
                remedy="Tick the box to send the requests.",
            )
        return Scoring(
            measure=measure, name=name.strip(), judge_prompt=prompt, judged_pairs=pairs,
            allow_remote=measure == "judge",
        )  # fmt: skip

    return scoring


def _is_granted(address: str, experiment: Callable[[], Experiment], pairs: int) -> bool:
    """Show how many requests the judge gets; return whether they may be sent.

    If the judge is on another machine, the user must tick a box to confirm the requests.
    """
    try:
        requests = most_requests(experiment(), pairs)
        st.caption(f"Up to {requests:,} requests, each with a prompt and two texts.")
        return not address.strip() or is_granted(address, "quality_judge", "Prompts and texts go")
    except SpecvizError as problem:
        show_error(problem)
        return False


def _spread(items: tuple[SuiteItem, ...], count: int) -> tuple[SuiteItem, ...]:
    """Return ``count`` prompts, taken at regular intervals from ``items``."""
    return tuple(items[at * len(items) // count] for at in range(count))


def _show_recorded() -> None:
    show_example_caption(
        "Measure win rates",
        "Each rule writes several texts for each prompt. A scorer compares each text of a lossy "
        "rule with the texts of the lossless rule.",
    )
    if RECORDED.is_file():
        report = _recorded()
        st.caption(
            as_text(
                f"{report.prompts} prompts. For each prompt, each rule wrote {report.texts} texts "
                f"of at most {report.tokens} tokens, at temperature {report.temperature:g}."
            )
        )
        _show_report(report, key="recorded", pair="embedded pair")


@st.cache_resource(show_spinner=False)
def _recorded() -> QualityReport:
    return from_json(RECORDED.read_text(encoding="utf-8"), QualityReport)


def _show_job(job: QualityJob) -> None:
    if job.report is not None:
        _show_report(job.report, key="measured", pair=job.experiment.spec.title)
        _show_texts(job)
    elif job.going and job.scored[1]:
        what = "pairs judged" if job.scoring.measure == "judge" else "texts scored"
        st.caption(f"{job.scored[0]:,} of {job.scored[1]:,} {what}")
    elif job.state == "stopped":
        made, planned = job.progress
        st.caption(
            f"{made:,} of {planned:,} texts are stored. “Measure win rates” continues from there."
        )


def _show_report(report: QualityReport, *, key: str, pair: str) -> None:
    of_bias = report.measure == "distance"
    points = [
        RulePoint(
            name=each.label,
            group=_group(each.rule, each.residual),
            epsilon=each.epsilon,
            speed=each.over_lossless.value,
            speed_low=each.over_lossless.low,
            speed_high=each.over_lossless.high,
            won=height.value,
            won_low=height.low,
            won_high=height.high,
        )
        for each in report.rules
        if each.over_lossless is not None and (height := _height(each, of_bias)) is not None
    ]
    note = (
        f"Pair: {as_text(pair)}. Points are labelled with ε. {_DIRECTION[report.measure]} Bars are "
        "95 % intervals over prompts."
    )
    show_chart(
        win_rate_chart(points, of_bias=of_bias), note, "measured", key=f"quality_{key}",
        on_select=partial(_choose_clicked, f"quality_{key}"), selection_mode="points",
        alt=f"The speed and the {'bias' if of_bias else 'win rate'} of every rule.",
    )  # fmt: skip
    head, *rows = table_rows(report)
    st.dataframe(
        [dict(zip(head, row, strict=True)) for row in rows],
        key=f"quality_table_{key}", hide_index=True, height="content",
    )  # fmt: skip
    _show_list((*rule_sentences(report), *other_sentences(report)))


def _height(each: RuleResult, of_bias: bool) -> WinRate | Ratio | None:
    if not of_bias:
        return each.won
    return each.bias if each.rule != "lossless" else None


def _show_list(said: Iterable[str]) -> None:
    st.markdown("\n".join(f"* {as_text(each)}" for each in said))


def _choose_clicked(chart: str) -> None:
    """Select the rule that was clicked in the chart; its texts are shown below."""
    for each in st.session_state[chart]["selection"]["points"]:
        if data := each.get("customdata"):
            st.session_state[_RULE] = data[0]
            return


def _show_texts(job: QualityJob) -> None:
    """For one prompt, show the texts of one rule beside the texts of the lossless rule."""
    st.subheader("The texts", anchor=False)
    labels, items = job.plan.labels, job.experiment.items
    if st.session_state.get(_RULE) not in labels[CONTROL + 1 :]:
        st.session_state[_RULE] = labels[CONTROL + 1]
    rule = st.selectbox("Rule", labels[CONTROL + 1 :], key=_RULE, help="Or click a point above.")
    item = st.selectbox(
        "Prompt", range(len(items)), key="quality_text_prompt",
        format_func=lambda at: textwrap.shorten(items[at].prompt, _SHOWN, placeholder=" …"),
    )  # fmt: skip
    st.text(items[item].prompt)
    texts = {run.job.key: text_without_end(run.trace) for run in job.measured}
    run_ids = job.run_ids
    for column, lane in zip(st.columns(2), (LOSSLESS, labels.index(rule)), strict=True):
        with column:
            st.caption(as_text(labels[lane]))
            for repeat in range(job.experiment.texts):
                with st.container(border=True):
                    st.text(texts.get((lane, item, repeat), ""))
                    if run_id := run_ids.get((lane, item, repeat)):
                        st.page_link(
                            "pages/watch.py",
                            label="Watch this run",
                            query_params={RUN_LINK: run_id},
                        )


def _group(rule: str, residual: str) -> str:
    if rule == "typical":
        return "typical"
    return "OPT" if residual == "leftover" else "UNO"
