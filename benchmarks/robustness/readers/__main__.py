"""`python -m benchmarks.robustness.readers`."""

from benchmarks.robustness.readers import main

if __name__ == "__main__":
    raise SystemExit(main())
