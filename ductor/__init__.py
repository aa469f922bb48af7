"""The public face of ductor."""
