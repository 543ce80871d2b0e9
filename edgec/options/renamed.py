"""Options by the names they had before: an old name is an error that says the new one."""

from __future__ import annotations

#: Long options and keys of edgec.toml, with underscores; `budget` had three meanings, by the command.
_FLAGS = {
    "apart": "materialize",
    "without": "disable_rule",
    "choose": "override",
    "tuned": "profiles",
    "untuned": "no_profiles",
    "loss_budget": "max_loss",
    "limit": "budget",
    "budget": "max_loss",
}
#: Python keywords.
_KEYWORDS = {
    "apart": "materialize",
    "without": "disable_rules",
    "choose": "overrides",
    "tuned": "profiles",
    "loss_budget": "max_loss",
    "beside": "extras",
    "prepared": "preprocessing",
    "ways": "variants",
    "budget": "seconds",
}


def new_flag(name: str, command: str) -> str | None:
    """The new name of a long option or key of a command, with underscores; None for one that never was.

    ``name`` may have dashes.
    """
    name = name.replace("-", "_")
    return "seconds" if (command, name) == ("tune", "budget") else _FLAGS.get(name)


def new_keyword(name: str) -> str | None:
    """The new name of a Python keyword; None for one that never was."""
    return _KEYWORDS.get(name)
