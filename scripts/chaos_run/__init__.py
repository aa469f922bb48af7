"""Real processes under load, struck again and again, and the proof afterwards; `scripts/chaos` runs it."""
