"""The calculations of a solution in prose, written with one operation on each line.

The module knows arithmetic and the wording of solutions, not the tasks they belong to.
"""

from __future__ import annotations

import ast
import operator
import re
from collections.abc import Iterator, Sequence
from fractions import Fraction

_NUMBER = r"\d+(?:\.\d+)?"
_TOKEN = re.compile(rf"{_NUMBER}|[^\W\d_]+|\S")
_REWRITTEN = (
    (r"(?<=\d),(?=\d{3})", ""),
    (r"[$€£%]", ""),
    (r"÷", "/"),
    (r"(?<=[\d\s)])[x×](?=[\s\d(])", "*"),
    (r"/ ?(?=[A-Za-z])", " "),  # of a unit: 6 days/week
    (r"(?<=\d)\(", "*("),
    (r"\bhalf \*", "0.5 *"),
    (r" \+ [A-Z](?= =)", ""),  # an unknown on both sides: 70 + 48 + T = 118 + T
)
_OPERATIONS = {"+": operator.add, "-": operator.sub, "*": operator.mul, "/": operator.truediv}


def calculations(solution: str, answer: str) -> list[str] | None:
    """Lines such as ``12 * 5 = 60`` that lead to ``answer``, or ``None``.

    ``None`` is returned if the solution's equations cannot be followed to the answer. Units and
    words between the numbers of an equation are left out. An equation of several operations becomes
    several lines. Products are divided first where that leaves whole numbers. A product of two
    numbers of several digits becomes a sum of products with one digit each. A percentage counts as
    in the solution, as a hundredth or as a number. A result that the solution cuts to a whole
    number is cut in the line as well. No line is written twice, and none follows the answer.
    """
    lines: list[str] = []
    result, wanted = None, Fraction(answer.replace(",", ""))
    for line in solution.split("\n"):
        for expression, result in _equations(line):
            try:
                found = _written(expression, result)
            except ZeroDivisionError:
                return None
            if found is None:
                return None
            lines += [step for step in found if step not in lines]
    ends = [i + 1 for i, line in enumerate(lines) if line.endswith(f" = {_text(wanted)}")]
    return lines[: ends[-1]] if ends and result == wanted else None


def _equations(line: str) -> Iterator[tuple[str, Fraction]]:
    """Yield each calculation in front of an equals sign, with the number behind it."""
    for pattern, replacement in _REWRITTEN:
        line = re.sub(pattern, replacement, line)
    tokens = _TOKEN.findall(line)
    for i, token in enumerate(tokens):
        if token == "=" and (expression := _calculation_before(tokens[:i])):
            sign = "-" if tokens[i + 1 : i + 2] == ["-"] else ""
            number = "".join(tokens[i + 1 + len(sign) :][:1])
            if re.fullmatch(_NUMBER, number):
                yield expression, Fraction(sign + number)


def _calculation_before(tokens: Sequence[str]) -> str | None:
    """The longest calculation that ends with ``tokens``; ``None`` if that is a number alone."""
    kept: list[str] = []
    complete: list[str] = []
    depth, operand = 0, True
    for token in reversed(tokens):  # backwards: a calculation has its end at the equals sign alone
        word = token[0].isalpha()
        if operand and (token == ")" or re.fullmatch(_NUMBER, token)):
            depth += token == ")"
            operand = token == ")"
        elif not operand and token in _OPERATIONS:
            operand = True
        elif not operand and depth and token == "(":
            depth -= 1
        elif word and (operand or depth):
            continue
        else:
            break
        kept.append(token)
        if not operand and not depth:
            complete = kept[::-1]
    return " ".join(complete) if len(complete) > 1 else None


def _written(expression: str, result: Fraction) -> list[str] | None:
    """The lines of one equation, or ``None`` if its sides do not agree."""
    for scale in ("", " * 100", " / 100"):  # percentages, which solutions write in either form
        steps = _Steps()
        value = steps.evaluate(ast.parse(f"({expression}){scale}", mode="eval").body)
        if abs(value - result) < Fraction(1, 1000):
            return steps.lines
        if not scale and steps.lines and result == value // 1:
            last = steps.lines[-1].rpartition(" = ")[0]
            return [*steps.lines[:-1], f"{last} = {_text(result)}"]
    return None


class _Steps:
    """Evaluates a calculation and writes a line for each operation."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def evaluate(self, node: ast.expr) -> Fraction:
        """The value of a calculation; its lines are appended to ``lines``.

        Raises ``ValueError`` for anything but sums, differences, products and quotients of numbers.
        """
        match node:
            case ast.Constant(value=value):
                return Fraction(str(value))
            case ast.BinOp(left=left, op=ast.Add() | ast.Sub() as op, right=right):
                sign = "+" if isinstance(op, ast.Add) else "-"
                return self._line(self.evaluate(left), sign, self.evaluate(right))
            case ast.BinOp(op=ast.Mult() | ast.Div()):
                return self._product(*self._factors(node))
        raise ValueError(f"not a calculation: {ast.unparse(node)}")

    def _factors(self, node: ast.expr) -> tuple[list[Fraction], list[Fraction]]:
        """The factors and the divisors of a product."""
        match node:
            case ast.BinOp(left=left, op=ast.Mult() | ast.Div() as op, right=right):
                times, over = self._factors(left)
                more, less = self._factors(right)
                if isinstance(op, ast.Div):
                    more, less = less, more
                return times + more, over + less
        value = self.evaluate(node)
        share = value.limit_denominator(4)
        if value < 1 and abs(value - share) < Fraction(1, 10**9):  # 0.6666666666666666 is 2/3
            return [Fraction(share.numerator)], [Fraction(share.denominator)]
        for parts in (10, 100):
            if value < 1 and (value * parts).denominator == 1:
                return [value * parts], [Fraction(parts)]
        return [value], []

    def _product(self, times: list[Fraction], over: list[Fraction]) -> Fraction:
        times = [x for x in times if x != 1] or [Fraction(1)]
        over = [x for x in over if x != 1]
        first = next((x for x in times for y in over if x % y == 0), times[0])
        times.remove(first)
        total = first
        while times or over:
            whole = [y for y in over if total % y == 0]
            if whole or not times:
                divisor = whole[0] if whole else over[0]
                over.remove(divisor)
                total = self._line(total, "/", divisor)
            else:
                total = self._times(total, times.pop(0))
        return total

    def _times(self, left: Fraction, right: Fraction) -> Fraction:
        left_parts, right_parts = _parts(left), _parts(right)
        if min(len(left_parts), len(right_parts)) <= 1:
            return self._line(left, "*", right)
        if len(left_parts) < len(right_parts):
            left, right_parts = right, left_parts
        total = self._line(left, "*", right_parts[0])
        for part in right_parts[1:]:
            total = self._line(total, "+", self._line(left, "*", part))
        return total

    def _line(self, left: Fraction, sign: str, right: Fraction) -> Fraction:
        result: Fraction = _OPERATIONS[sign](left, right)
        self.lines.append(f"{_text(left)} {sign} {_text(right)} = {_text(result)}")
        return result


def _parts(value: Fraction) -> list[Fraction]:
    """The hundreds, tens and units of a whole number; any other number as itself."""
    if value.denominator != 1:
        return [value]
    digits = str(value.numerator)
    return [
        Fraction(int(digit) * 10 ** (len(digits) - i - 1))
        for i, digit in enumerate(digits)
        if digit not in "-0"
    ]


def _text(value: Fraction) -> str:
    """A number as text: whole or decimal if it is exact with six digits, else as a fraction."""
    if value.denominator == 1:
        return str(value.numerator)
    decimal = f"{float(value):.6f}".rstrip("0")
    return decimal if Fraction(decimal) == value else f"{value.numerator}/{value.denominator}"
