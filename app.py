"""The dashboard's entry point.

``streamlit run app.py`` serves the ASGI application ``app``. For every page view, Streamlit runs
this file as a script.
"""

from streamlit.starlette import App

if __name__ == "__main__":
    from specviz.ui.shell import open_shell

    open_shell()
else:
    from specviz.ui.access import require_usable_access
    from specviz.ui.serving import MIDDLEWARE, get_ready

    app = App(__file__, middleware=MIDDLEWARE, lifespan=get_ready)
    require_usable_access()  # the app above says where Streamlit's secrets are
