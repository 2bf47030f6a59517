"""Request routing: one file per policy, all scored as llm-d's endpoint picker does."""
