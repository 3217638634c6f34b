"""Who uses the dashboard, and what they may do. Neither Streamlit nor torch is imported here."""
