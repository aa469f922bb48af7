"""A document as text, JSON or Python values, read into a tree that knows where everything stands."""
