"""A repository in Maven's layout with one library, which Gradle takes by `maven { url = ... }`."""

from __future__ import annotations

import hashlib
from pathlib import Path

from edgec.files import zipped

GROUP = "edgec"


def write_repository(folder: Path, name: str, version: str, library: Path, sources: Path) -> Path:
    """Write ``library`` (an AAR) as edgec:NAME:VERSION below ``folder``, with the Java and Kotlin below ``sources``.

    Each file has its SHA-1 and SHA-256 beside it. Returns the folder of the version.
    """
    home = folder / GROUP / name
    place = home / version
    place.mkdir(parents=True, exist_ok=True)
    code = [p for p in sorted(sources.rglob("*")) if p.suffix in (".java", ".kt")]
    content = {
        place / f"{name}-{version}.aar": library.read_bytes(),
        place / f"{name}-{version}.pom": _POM.format(group=GROUP, name=name, version=version).encode(),
        place / f"{name}-{version}-sources.jar": zipped({"/".join(p.parts[-3:]): p.read_bytes() for p in code}),
        home / "maven-metadata.xml": _METADATA.format(group=GROUP, name=name, version=version).encode(),
    }
    for path, data in content.items():
        path.write_bytes(data)
        for kind in ("sha1", "sha256"):
            path.with_name(f"{path.name}.{kind}").write_text(hashlib.new(kind, data).hexdigest())
    return place


_POM = """<?xml version="1.0" encoding="UTF-8"?>
<project xmlns="http://maven.apache.org/POM/4.0.0" xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance" xsi:schemaLocation="http://maven.apache.org/POM/4.0.0 https://maven.apache.org/xsd/maven-4.0.0.xsd">
  <modelVersion>4.0.0</modelVersion>
  <groupId>{group}</groupId>
  <artifactId>{name}</artifactId>
  <version>{version}</version>
  <packaging>aar</packaging>
  <description>A neural network, compiled by edgec</description>
</project>
"""  # noqa: E501
_METADATA = """<?xml version="1.0" encoding="UTF-8"?>
<metadata>
  <groupId>{group}</groupId>
  <artifactId>{name}</artifactId>
  <versioning>
    <latest>{version}</latest>
    <release>{version}</release>
    <versions>
      <version>{version}</version>
    </versions>
  </versioning>
</metadata>
"""
