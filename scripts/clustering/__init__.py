"""A whole installation on one machine; `scripts/cluster` runs it."""
