"""Samples for a network out of folders of pictures and sounds."""
