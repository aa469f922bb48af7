"""A real workflow over a real folder, killed half-way and finished: `scripts/demo`."""
