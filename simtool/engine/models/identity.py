"""What names a model in a manifest: its folder and a hash of its weights."""

from __future__ import annotations

import hashlib
from pathlib import Path


def identity(folder: Path) -> dict[str, str]:
    """Return a checkpoint folder's name and the sha256 of its weights, as manifests hold them."""
    digest = hashlib.sha256()
    for file in sorted(folder.glob("*.safetensors")):
        with file.open("rb") as stream:
            for block in iter(lambda: stream.read(1 << 20), b""):
                digest.update(block)
    return {"id": folder.name, "sha256": digest.hexdigest()}
