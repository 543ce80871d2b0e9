"""The two levels of the compiler's language: graphs of operators, and the element formulas behind them."""
