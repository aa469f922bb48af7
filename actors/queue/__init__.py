"""How step attempts reach workers."""
