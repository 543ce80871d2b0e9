"""`python -m benchmarks.robustness.readers`."""

from benchmarks.robustness.readers import main

raise SystemExit(main())
