"""One network over several devices: its division into parts, and the processes that run them together.

`choose` divides a plan, by rows or into consecutive parts, or refuses to; `build` writes the folder. `worker` serves a
part, `coordinator` runs the whole over plain TCP. `bench`, `check` and `probe` measure.
"""
