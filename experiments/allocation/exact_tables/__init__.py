"""The tables of `allocation-tables`: closed programs in float64 on known laws of success rates, one module a question, nothing simulated but the ledger."""
