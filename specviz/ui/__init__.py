"""The Streamlit side of the dashboard. It never imports torch: models live elsewhere."""
