"""The library an expression may call unless its host gives another."""

from ductor.definitions.expressions.functions.containers import CONTAINER_FUNCTIONS
from ductor.definitions.expressions.functions.declared import FunctionLibrary
from ductor.definitions.expressions.functions.encodings import ENCODING_FUNCTIONS
from ductor.definitions.expressions.functions.instants import INSTANT_FUNCTIONS
from ductor.definitions.expressions.functions.standard import STANDARD_FUNCTIONS
from ductor.definitions.expressions.functions.texts import TEXT_FUNCTIONS

STANDARD_LIBRARY = FunctionLibrary(
    (*STANDARD_FUNCTIONS, *TEXT_FUNCTIONS, *CONTAINER_FUNCTIONS, *ENCODING_FUNCTIONS, *INSTANT_FUNCTIONS)
)
"""CEL's standard functions and the library of ductor."""
