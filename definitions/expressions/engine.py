"""The interface of an engine: syntax tree in, program out."""

from collections.abc import Callable
from typing import Protocol, TypeAlias

from ductor.definitions.expressions.activation import Activation
from ductor.definitions.expressions.cel_values import Value
from ductor.definitions.expressions.functions.declared import FunctionLibrary
from ductor.definitions.expressions.syntax import Node

Program: TypeAlias = Callable[[Activation], Value]
"""Evaluates one expression. It keeps nothing between calls, and raises `Fault` when it can't go on."""


class Engine(Protocol):
    """Turns syntax trees into programs. All engines give the same values and the same faults."""

    name: str

    def compile(self, tree: Node, functions: FunctionLibrary) -> Program:
        """The program of an expression whose names were checked."""
