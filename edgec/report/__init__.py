"""Reports: what a build did, as text, tables and JSON."""
