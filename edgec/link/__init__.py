"""Ways to a device: where programs are put, started, and their files fetched back."""

from edgec.link.base import Ended, Link
from edgec.link.choose import open_link

__all__ = ["Ended", "Link", "open_link"]
