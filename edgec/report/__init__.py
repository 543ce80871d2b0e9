"""Reports: one file a topic, which makes its record (JSON) and draws it (text); the document and page of a build."""
