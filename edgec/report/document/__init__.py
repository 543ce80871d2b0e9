"""The document of a build: everything that is known of it as one JSON object (docs/guide/report.md)."""

from edgec.report.document.build import document, read_document, write_document

__all__ = ["document", "read_document", "write_document"]
