"""The checks of a whole definition: steps, graph, expressions, messages and schemas."""
