"""Your tools: every module in here is imported at start-up, and its `@tool` functions are offered to the model."""
