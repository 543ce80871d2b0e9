"""The two levels of the compiler's language: graphs of operators, and the element formulas behind them.

`expr`, `index` and `linear` import one another: expressions simplify on construction, and the simplifier constructs
expressions.
"""
