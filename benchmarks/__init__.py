"""Side-by-side measurements. `make bench`, or `python -m benchmarks T1 T2`.

A speed is a ratio of two sides that ran in turn, each in its own process, and that computed the
same thing; where they did not, the line says `WRONG` and no ratio.
"""
