"""The Streamlit pages of the dashboard.

Nothing here imports torch: models run in the process of ``specviz.worker``.
"""
