"""One file per step type: its fields and its own checks."""
