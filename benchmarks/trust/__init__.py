"""The worth of figures and proofs: planted mistakes, planted faults, and the page of them all."""
