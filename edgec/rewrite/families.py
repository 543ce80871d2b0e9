"""Families of rules, and where they come from."""

from __future__ import annotations

from edgec.rewrite.rule import Rule

_ALGEBRA = "algebra"
_ARRAYS = "arrays and their indices"
#: The families of the shipped rules, with their sources. A user's rule may name a family of its own.
ORIGINS: dict[str, str] = {
    "absorbing": "algebra of lattices and Booleans",
    "associative": f"{_ALGEBRA}; DNNFusion (Niu et al. 2021), associative rules",
    "boolean": "Boolean algebra (De Morgan)",
    "select": _ALGEBRA,
    "commutative": f"{_ALGEBRA}; DNNFusion (Niu et al. 2021), commutative rules",
    "comparison": "total orders; IEEE 754 for what is not a number",
    "concatenation": f"{_ARRAYS}; TASO (Jia et al. 2019), concatenation axioms",
    "distributive": f"{_ALGEBRA}; DNNFusion (Niu et al. 2021), distributive rules",
    "exponential": "calculus",
    "folding": "evaluation",
    "homomorphism": "calculus; DNNFusion (Niu et al. 2021), commutative rules",
    "identity": f"{_ALGEBRA}; IEEE 754 for the sign of zero",
    "inverse": _ALGEBRA,
    "linearity": "linear algebra; TASO (Jia et al. 2019), linearity axioms",
    "movement": f"{_ARRAYS}; SmartMem (Niu et al. 2024), index comprehension",
    "padding": f"{_ARRAYS}: what only reads padding is not computed",
    "power": "calculus",
    "quantization": "linear algebra; integer arithmetic of quantized networks (Jacob et al. 2018)",
    "quotient": _ALGEBRA,
    "range": "interval arithmetic",
    "reduction": "finite sums and extremes",
    "hoisting": f"{_ARRAYS}: what is not read is not computed",
    "rounding": "monotone functions; integers as floating-point numbers (IEEE 754)",
    "scaling": "linear algebra; folding of batch normalization (Jacob et al. 2018)",
    "sinking": f"{_ARRAYS}; TASO (Jia et al. 2019), transposition axioms",
    "transposition": "linear algebra; TASO (Jia et al. 2019), transposition axioms",
}


def origin_of(rule: Rule) -> str:
    """Source of the rules of this family; "its author" for a family that is not shipped."""
    return ORIGINS.get(rule.family, "its author")
