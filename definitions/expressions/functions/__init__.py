"""The functions of expressions: CEL's own, the library of ductor, and those a host adds."""
