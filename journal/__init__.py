"""What happened: events, state, fold and the stores; the only truth."""
