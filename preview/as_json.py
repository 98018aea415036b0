"""The preview as JSON, for other programs and for the next preview's `--base`."""

from dataclasses import asdict
from typing import Any

from pydantic.alias_generators import to_camel

from preview.build import Preview
from preview.shape import model_rows
from preview.sizes import sizing_json


def as_json(preview: Preview) -> dict[str, Any]:
    """The whole preview as plain data; unknown values are `{"$unknown": true}`, secrets `{"$secret": true}`."""
    return {
        "stack": preview.stack,
        "region": preview.settings.region,
        "resources": [
            {
                "urn": r.urn,
                "type": r.type,
                "name": r.name,
                "parent": r.parent,
                "dependencies": list(r.dependencies),
                "inputs": r.inputs,
            }
            for r in preview.registrations
        ],
        "kubernetes": preview.objects,
        "models": [
            {to_camel(key): value for key, value in asdict(row).items()}
            for row in model_rows(preview.settings)
        ],
        "sizing": sizing_json(preview.size),
        "findings": [finding.as_json() for finding in preview.findings],
        "unknown": [f"{r.name}: {path}" for r, path in preview.unknown],
        "placeholders": list(preview.placeholders),
    }
