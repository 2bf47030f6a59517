"""What form an answer takes, from the Accept header."""

from __future__ import annotations

from dataclasses import dataclass

from console.cluster.fake.codec import ACCEPTED
from console.cluster.fake.status import StatusError


@dataclass(frozen=True, slots=True)
class Form:
    """Media type and, for JSON, the kind the object is turned into."""

    yaml: bool = False
    as_kind: str = ""  # Table, PartialObjectMetadata, PartialObjectMetadataList
    version: str = "v1"


def negotiate(accept: str | None, *, watch: bool = False) -> Form:
    """The first form on offer. Raises 406."""
    if not accept or not accept.strip():
        return Form()
    for part in accept.split(","):
        media, *rest = (p.strip() for p in part.split(";"))
        parameters = dict(p.split("=", 1) for p in rest if "=" in p)
        if media in ("*/*", "application/*"):
            return Form()
        if media == "application/yaml":
            if watch:
                raise _refused("application/json")
            return Form(yaml=True)
        if media != "application/json":
            continue
        kind = parameters.get("as", "")
        if not kind:
            return Form()
        version = parameters.get("v", "v1")
        known = kind in ("Table", "PartialObjectMetadata", "PartialObjectMetadataList")
        if known and parameters.get("g") == "meta.k8s.io" and version in ("v1", "v1beta1"):
            return Form(as_kind=kind, version=version)
    raise _refused(ACCEPTED)


def _refused(accepted: str) -> StatusError:
    return StatusError(406, "NotAcceptable", f"only the following media types are accepted: {accepted}")
