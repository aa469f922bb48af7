"""Fuzzing of what reads input: the parser, the compiler, expressions and the codec."""
