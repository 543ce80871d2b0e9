"""Types of everything that `--json` prints: the schemas, the guide's tables and the tests are made of them.

A key has the type of its value and, in `Annotated`, its meaning. Keys that only some answers have are in a base class
that is not total.
"""
