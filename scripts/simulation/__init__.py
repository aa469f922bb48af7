"""Deterministic simulation: the real engine on a seeded scheduler, a faulty store and virtual time."""
