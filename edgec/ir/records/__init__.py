"""Records as text: frozen dataclasses that print readably and read back as equal objects."""
