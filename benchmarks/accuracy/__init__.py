"""Accuracy on labeled data, and models that must work as they are used."""
