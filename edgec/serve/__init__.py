"""The report, live: decisions are toggled in the page, built and measured here, and kept in edgec.toml."""
