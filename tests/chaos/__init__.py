"""Real processes, killed while they work."""
