"""One file per step type: its behaviour."""
