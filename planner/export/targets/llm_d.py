"""Target llm-d: plain objects, one stream for kubectl."""

from __future__ import annotations

from planner.export.render import Prepared, manifests
from planner.export.targets.base import Export, document_file, stream_of


def write(prepared: Prepared) -> Export:
    """Every object in the order it should be applied; in a folder, one numbered file per object."""
    objects = manifests(prepared)
    header = prepared.header()
    files = tuple(
        document_file(f"{i:02d}-{m.file_name}", m.plain(), header if i == 1 else ())
        for i, m in enumerate(objects, start=1)
    )
    return Export(files=files, stream=stream_of(objects, header), manifests=objects)
