"""Finds conversions of money in a syntax tree: everything that turns USD, micro-USD, pico-USD, tokens or a price into another.

A scale is a factor of a million (or of its square) however it is written; money is a name that speaks of it.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from fractions import Fraction

MILLION = 10**6
SCALES = frozenset(Fraction(MILLION) ** power for power in (-2, -1, 1, 2))
SCALE_NAMES = re.compile(
    r"(?:^|_)(?:micro|pico|million|mega)s?$|per_million|^MICRO|^PER_MILLION|per_mtok$", re.IGNORECASE
)
MONEY = re.compile(r"usd|cost|price|micro|spen[dt]|charge|budget|dollar|cents|dearest|cheap", re.IGNORECASE)
TO_NUMBER = frozenset(
    {"float", "round", "int", "Decimal", "Fraction", "ceil", "floor", "trunc", "quantize", "scaleb", "fsum"}
)
ARITHMETIC = frozenset(
    {"mul", "truediv", "floordiv", "divmod", "pow", "prod", "ldexp", "scaleb", "__mul__", "__truediv__"}
)
MODULES = frozenset({"decimal", "fractions"})
Scaling = ast.Mult | ast.Div | ast.FloorDiv | ast.Mod


def conversions(source: str) -> list[str]:
    """The text of each conversion, in order."""
    tree = ast.parse(source)
    constants = _constants(tree)
    found: dict[tuple[int, int], str] = {}
    inside: set[int] = set()
    for node in ast.walk(tree):
        if id(node) in inside:
            continue
        if _converts(node, constants):
            found[getattr(node, "lineno", 0), getattr(node, "col_offset", 0)] = ast.unparse(node)
            inside |= {id(part) for part in ast.walk(node)}
    return [found[place] for place in sorted(found)]


def _converts(node: ast.AST, constants: dict[str, Fraction]) -> bool:
    match node:
        case ast.Import(names=names):
            return any(name.name in MODULES for name in names)
        case ast.ImportFrom(module=str(module)):
            return module in MODULES
        case ast.BinOp(op=ast.Mult() | ast.Div() | ast.FloorDiv() | ast.Mod()):
            return _scaled(node, constants) or _of_money(node.left) or _of_money(node.right)
        case ast.AugAssign(op=ast.Mult() | ast.Div() | ast.FloorDiv() | ast.Mod()):
            return _is_scale(node.value, constants) or _of_money(node.target) or _of_money(node.value)
        case ast.Call():
            return _called(node, constants)
        case ast.FormattedValue(format_spec=ast.JoinedStr() as spec):
            return _of_money(node.value) and bool(re.search(r"[efgEFG%]'?$", ast.unparse(spec)))
    return False


def _called(call: ast.Call, constants: dict[str, Fraction]) -> bool:
    name = call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")
    given = [*call.args, *(keyword.value for keyword in call.keywords)]
    if isinstance(call.func, ast.Attribute):
        given.append(call.func.value)
    if name in ARITHMETIC and any(_is_scale(one, constants) for one in given):
        return True
    return name in TO_NUMBER and any(_of_money(one) for one in given)


def _scaled(node: ast.BinOp, constants: dict[str, Fraction]) -> bool:
    """Is the product of all constant factors of this chain a scale? And is it more than a constant?"""
    factor, others = Fraction(1), 0
    for part, inverse in _factors(node):
        value = _value(part, constants)
        if value is None:
            others += 1
            if _named_scale(part):
                return True
        elif value:
            factor = factor / value if inverse else factor * value
    return bool(others) and abs(factor) in SCALES


def _factors(node: ast.expr, inverse: bool = False) -> Iterator[tuple[ast.expr, bool]]:
    if isinstance(node, ast.UnaryOp):
        yield from _factors(node.operand, inverse)
    elif isinstance(node, ast.BinOp) and isinstance(node.op, Scaling):
        yield from _factors(node.left, inverse)
        yield from _factors(node.right, inverse != (not isinstance(node.op, ast.Mult)))
    else:
        yield node, inverse


def _is_scale(node: ast.expr, constants: dict[str, Fraction]) -> bool:
    value = _value(node, constants)
    return _named_scale(node) if value is None else abs(value) in SCALES


def _value(node: ast.expr, constants: dict[str, Fraction]) -> Fraction | None:
    """The number of a constant expression."""
    match node:
        case ast.Constant(value=bool()):
            return None
        case ast.Constant(value=int() | float() as number):
            return Fraction(str(number))
        case ast.Name(id=name):
            return constants.get(name)
        case ast.UnaryOp(operand=operand):
            return _value(operand, constants)
        case ast.BinOp(left=left, op=ast.Pow(), right=right):
            base, power = _value(left, constants), _value(right, constants)
            small = power is not None and power.denominator == 1 and abs(power) < 100
            return base ** int(power) if base and small and power is not None else None
        case ast.BinOp(left=left, op=ast.Mult(), right=right):
            one, two = _value(left, constants), _value(right, constants)
            return None if one is None or two is None else one * two
    return None


def _constants(tree: ast.Module) -> dict[str, Fraction]:
    """Names that stand for a number, wherever they are assigned."""
    found: dict[str, Fraction] = {}
    for node in ast.walk(tree):
        value = getattr(node, "value", None)
        if isinstance(node, ast.Assign | ast.AnnAssign) and isinstance(value, ast.expr):
            number = _value(value, found)
            for target in node.targets if isinstance(node, ast.Assign) else [node.target]:
                if isinstance(target, ast.Name) and number is not None:
                    found[target.id] = number
    return found


def _named_scale(node: ast.expr) -> bool:
    return SCALE_NAMES.search(_last_name(node)) is not None


def _of_money(node: ast.expr) -> bool:
    """Does this expression speak of money? A call does by its own name, not by what it is given."""
    match node:
        case ast.Name() | ast.Attribute():
            return MONEY.search(ast.unparse(node)) is not None
        case ast.Subscript(value=value, slice=ast.Constant(value=str(key))):
            return MONEY.search(key) is not None or _of_money(value)
        case ast.Subscript(value=value):
            return _of_money(value)
        case ast.BinOp(left=left, right=right):
            return _of_money(left) or _of_money(right)
        case ast.BoolOp(values=values):
            return any(_of_money(value) for value in values)
        case ast.IfExp(body=body, orelse=orelse):
            return _of_money(body) or _of_money(orelse)
        case ast.UnaryOp(operand=operand):
            return _of_money(operand)
        case ast.Call(func=func, args=args):
            name = func.attr if isinstance(func, ast.Attribute) else getattr(func, "id", "")
            if name in ("sum", "max", "min", "abs", "str"):
                return any(_of_money(arg) for arg in args)
            if name == "get":
                return any(isinstance(arg, ast.Constant) and MONEY.search(str(arg.value)) for arg in args)
            return MONEY.search(name) is not None
        case ast.GeneratorExp(elt=elt) | ast.ListComp(elt=elt):
            return _of_money(elt)
    return False


def _last_name(node: ast.expr) -> str:
    return node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""
