"""Templates and expressions: one interface, two engines."""
