"""Verdicts on public properties of networks, and bounds beside those of other programs."""
