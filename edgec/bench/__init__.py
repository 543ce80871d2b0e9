"""Timing a network on this machine or on its device."""
