"""Measurements of the engine, beside the bare commit loop and on one PostgreSQL: `scripts/bench`."""
