"""Watch: run the embedded pair on a prompt; its text, its rounds and its figures."""

from specviz.ui.shell import require_shell

require_shell()

import streamlit as st  # noqa: E402

from specviz.analysis import metrics, rounds_frame, verdict_sentence  # noqa: E402
from specviz.errors import SpecvizError  # noqa: E402
from specviz.trace import RunConfig  # noqa: E402
from specviz.ui.figures_row import show_figures  # noqa: E402
from specviz.ui.prompts import choose_prompt  # noqa: E402
from specviz.ui.runs import run_pair  # noqa: E402

st.title("Watch a pair think ahead")
st.caption("A small draft model guesses a few tokens; the large one checks them all at once.")

with st.sidebar:
    prompt = choose_prompt()
    gamma = st.slider("Draft tokens a round, γ", 1, 16, 5, key="gamma")
    temperature = st.slider("Temperature", 0.0, 1.5, 0.7, 0.1, key="temperature")
    run = st.button("Run", type="primary", key="run", width="stretch")

if run:
    try:
        with st.spinner("Loading the pair and decoding…"):
            st.session_state["trace"] = run_pair(
                prompt, RunConfig(gamma=gamma, temperature=temperature)
            )
    except SpecvizError as error:
        st.session_state.pop("trace", None)
        st.error(str(error))

trace = st.session_state.get("trace")
if trace is None:
    st.info("Choose a prompt and press Run. Nothing is downloaded.")
    st.stop()

figures = metrics(trace)
st.subheader(verdict_sentence(figures, trace))
show_figures(figures)
st.text(trace.prompt.text + trace.text)
with st.expander("Rounds"):
    st.dataframe(rounds_frame(trace), hide_index=True)
