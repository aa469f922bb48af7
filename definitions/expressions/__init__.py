"""Expressions (CEL) and templates.

Text is parsed (`parse`), its names are checked (`analysis`), and an engine turns the syntax tree into a program
(`portable_engine`, `cel_python_engine`, `cel_expr_engine`). Constants and pure paths need no engine (`paths`). Every
evaluation has a budget (`budget`) and ends in a JSON value or an `ExpressionError`.
"""

from ductor.definitions.expressions.activation import Activation, MappingActivation
from ductor.definitions.expressions.analysis import Names
from ductor.definitions.expressions.errors import ExpressionError, ExpressionSyntaxError, FaultKind
from ductor.definitions.expressions.expression import Expression, compile_expression
from ductor.definitions.expressions.functions.declared import FunctionLibrary
from ductor.definitions.expressions.functions.library import STANDARD_LIBRARY
from ductor.definitions.expressions.template import Template, compile_template

__all__ = [
    "STANDARD_LIBRARY",
    "Activation",
    "Expression",
    "ExpressionError",
    "ExpressionSyntaxError",
    "FaultKind",
    "FunctionLibrary",
    "MappingActivation",
    "Names",
    "Template",
    "compile_expression",
    "compile_template",
]
