"""Text of an expression -> its syntax tree: the grammar of CEL, by recursive descent.

Recursion follows brackets, conditionals and unary operators only and is bounded by `MAX_NESTING`; chains of binary
operators are read in loops. Macros become nodes here, as the language defines. Messages (`Name{...}`) and the leading
dot are refused: there are no message types and no containers in JSON.
"""

from typing import cast

from ductor.definitions.expressions.budget import MAX_NESTING, MAX_TREE_DEPTH
from ductor.definitions.expressions.errors import ExpressionSyntaxError
from ductor.definitions.expressions.macros import expand_call
from ductor.definitions.expressions.syntax import (
    Binary,
    BinaryOperator,
    Conditional,
    Index,
    ListLiteral,
    Literal,
    Logical,
    MapLiteral,
    Name,
    Node,
    Select,
    Unary,
)
from ductor.definitions.expressions.tokens import (
    KEYWORDS,
    RESERVED,
    Token,
    literal_of_number,
    literal_of_text,
    tokenize,
)

_LEVELS: tuple[frozenset[str], ...] = (
    frozenset(("<", "<=", ">", ">=", "==", "!=", "in")),
    frozenset(("+", "-")),
    frozenset(("*", "/", "%")),
)
_CONSTANTS = {"true": True, "false": False, "null": None}


def parse(source: str) -> Node:
    """The syntax tree of an expression.

    Raises:
        ExpressionSyntaxError: the text is not an expression; it has the offset, line and column within the text.
    """
    return _Parser(source).parse()


class _Parser:
    def __init__(self, source: str) -> None:
        self.source = source
        self.tokens = list(tokenize(source))
        self.position = 0
        self.nesting = 0

    def parse(self) -> Node:
        if self.tokens[0].kind == "end":
            raise ExpressionSyntaxError(self.source, 0, "the expression is empty")
        tree = self.expression()
        if self.token.kind != "end":
            raise self.unexpected("an operator or the end")
        return tree

    @property
    def token(self) -> Token:
        return self.tokens[self.position]

    def unexpected(self, wanted: str) -> ExpressionSyntaxError:
        token = self.token
        found = "the end" if token.kind == "end" else repr(token.text)
        return ExpressionSyntaxError(self.source, token.offset, f"found {found} where {wanted} was expected")

    def sees(self, text: str) -> bool:
        token = self.token
        return token.kind == "operator" and token.text == text

    def take(self, text: str) -> bool:
        if self.sees(text):
            self.position += 1
            return True
        return False

    def demand(self, text: str) -> None:
        if not self.take(text):
            raise self.unexpected(repr(text))

    def enter(self) -> None:
        self.nesting += 1
        if self.nesting > MAX_NESTING:
            message = f"the expression nests deeper than {MAX_NESTING}"
            raise ExpressionSyntaxError(self.source, self.token.offset, message, kind="limit")

    def depth_over(self, offset: int, *nodes: Node) -> int:
        """The depth of a node over these, refused when the tree becomes too deep."""
        depth = 1 + max((node.depth for node in nodes), default=0)
        if depth > MAX_TREE_DEPTH:
            message = f"the expression is deeper than {MAX_TREE_DEPTH} operators"
            raise ExpressionSyntaxError(self.source, offset, message, kind="limit")
        return depth

    def expression(self) -> Node:
        self.enter()
        test = self.logical("||")
        offset = self.token.offset
        if self.take("?"):
            when_true = self.logical("||")
            self.demand(":")
            when_false = self.expression()
            depth = self.depth_over(offset, test, when_true, when_false)
            test = Conditional(offset=offset, depth=depth, test=test, when_true=when_true, when_false=when_false)
        self.nesting -= 1
        return test

    def logical(self, operator: str) -> Node:
        offset = self.token.offset
        operands = [self.logical("&&") if operator == "||" else self.binary(0)]
        while self.take(operator):
            operands.append(self.logical("&&") if operator == "||" else self.binary(0))
        if len(operands) == 1:
            return operands[0]
        depth = self.depth_over(offset, *operands)
        if operator == "||":
            return Logical(offset=offset, depth=depth, operator="||", operands=tuple(operands))
        return Logical(offset=offset, depth=depth, operator="&&", operands=tuple(operands))

    def binary(self, level: int) -> Node:
        if level == len(_LEVELS):
            return self.unary()
        left = self.binary(level + 1)
        while self.token.kind in ("operator", "name") and self.token.text in _LEVELS[level]:
            token = self.token
            self.position += 1
            right = self.binary(level + 1)
            depth = self.depth_over(token.offset, left, right)
            operator = cast(BinaryOperator, token.text)
            left = Binary(offset=token.offset, depth=depth, operator=operator, left=left, right=right)
        return left

    def unary(self) -> Node:
        token = self.token
        if self.take("!"):
            self.enter()
            operand = self.unary()
            self.nesting -= 1
            return Unary(
                offset=token.offset, depth=self.depth_over(token.offset, operand), operator="!", operand=operand
            )
        if not self.take("-"):
            return self.member(self.primary())
        if self.token.kind == "number":
            number = self.token
            self.position += 1
            value = literal_of_number(self.source, number, negative=True)
            return self.member(Literal(offset=token.offset, value=value))
        self.enter()
        operand = self.unary()
        self.nesting -= 1
        return Unary(offset=token.offset, depth=self.depth_over(token.offset, operand), operator="-", operand=operand)

    def member(self, operand: Node) -> Node:
        while True:
            offset = self.token.offset
            if self.take("."):
                operand = self.selected(operand, offset)
            elif self.take("["):
                key = self.expression()
                self.demand("]")
                operand = Index(offset=offset, depth=self.depth_over(offset, operand, key), operand=operand, key=key)
            elif self.sees("{"):
                message = "messages do not exist here, only maps"
                raise ExpressionSyntaxError(self.source, offset, message, hint='Write {"key": value}.')
            else:
                return operand

    def selected(self, operand: Node, offset: int) -> Node:
        token = self.token
        if token.kind not in ("name", "quoted_name") or (token.kind == "name" and token.text in KEYWORDS):
            raise self.unexpected("a field name")
        self.position += 1
        if token.kind == "name" and self.take("("):
            arguments = (operand, *self.arguments(")"))
            depth = self.depth_over(offset, *arguments)
            return expand_call(self.source, token.offset, depth, token.text, arguments, method=True)
        depth = self.depth_over(offset, operand)
        return Select(offset=token.offset, depth=depth, operand=operand, field=token.text)

    def arguments(self, closing: str) -> list[Node]:
        result: list[Node] = []
        if self.take(closing):
            return result
        result.append(self.expression())
        while self.take(","):
            result.append(self.expression())
        self.demand(closing)
        return result

    def primary(self) -> Node:
        token = self.token
        self.position += 1
        if token.kind == "number":
            return Literal(offset=token.offset, value=literal_of_number(self.source, token, negative=False))
        if token.kind == "text":
            return Literal(offset=token.offset, value=literal_of_text(self.source, token))
        if token.kind == "name":
            return self.named(token)
        if token.kind == "operator" and token.text == "(":
            inner = self.expression()
            self.demand(")")
            return inner
        if token.kind == "operator" and token.text == "[":
            return self.list_literal(token.offset)
        if token.kind == "operator" and token.text == "{":
            return self.map_literal(token.offset)
        self.position -= 1
        raise self.unexpected("a value")

    def named(self, token: Token) -> Node:
        if token.text in _CONSTANTS:
            return Literal(offset=token.offset, value=_CONSTANTS[token.text])
        if token.text in RESERVED or token.text == "in":
            message = f"{token.text!r} is a reserved word and can't be a name"
            raise ExpressionSyntaxError(self.source, token.offset, message)
        if self.take("("):
            arguments = tuple(self.arguments(")"))
            depth = self.depth_over(token.offset, *arguments)
            return expand_call(self.source, token.offset, depth, token.text, arguments, method=False)
        return Name(offset=token.offset, name=token.text)

    def list_literal(self, offset: int) -> Node:
        items: list[Node] = []
        while not self.sees("]"):
            items.append(self.expression())
            if not self.take(","):
                break
        self.demand("]")
        return ListLiteral(offset=offset, depth=self.depth_over(offset, *items), items=tuple(items))

    def map_literal(self, offset: int) -> Node:
        keys: list[Node] = []
        values: list[Node] = []
        while not self.sees("}"):
            keys.append(self.expression())
            self.demand(":")
            values.append(self.expression())
            if not self.take(","):
                break
        self.demand("}")
        depth = self.depth_over(offset, *keys, *values)
        return MapLiteral(offset=offset, depth=depth, keys=tuple(keys), values=tuple(values))
