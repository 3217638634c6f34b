"""The loop: drafting, verification, the record, the target alone, and what each step costs."""
