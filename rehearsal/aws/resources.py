"""Creates, reads, changes and deletes a resource by its row."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any

import jmespath  # type: ignore[import-untyped]

from rehearsal.aws import sdk_types
from rehearsal.aws.cloud import AwsError, Cloud
from rehearsal.aws.row import Call, Reader, Row, Step, Values
from rehearsal.aws.shapes import MISSING, as_given, as_mapping, camel, fill, fill_path, find

DEFAULTS = "__defaults"  # the real provider lists here the properties that it filled in itself
TAG_PROPERTIES = frozenset({"tags", "tagsAll"})


class HalfMadeError(Exception):
    """A resource exists, but a step after its creation failed."""

    def __init__(self, identity: str, outputs: Values, error: AwsError) -> None:
        super().__init__(str(error))
        self.identity, self.outputs = identity, outputs


class Resources:
    """All resources of one configured provider."""

    def __init__(self, cloud: Cloud, default_tags: Mapping[str, str]) -> None:
        self.cloud, self.default_tags = cloud, dict(default_tags)

    def checked(self, row: Row, name: str, news: Values, olds: Values) -> Values:
        """The inputs with what the real provider fills in: a made-up name, and all tags."""
        checked = {key: value for key, value in news.items() if key != DEFAULTS}
        if row.autoname and not checked.get(row.autoname):
            made_up = row.autoname in (olds.get(DEFAULTS) or [])
            fresh = fill(row.name_pattern, {**self.cloud.given(), "name": name})
            checked[row.autoname] = olds[row.autoname] if made_up else fresh
            checked[DEFAULTS] = [row.autoname]
        if row.tagging:
            tags = {**self.default_tags, **(checked.get("tags") or {})}
            if tags:
                checked["tagsAll"] = tags
        return checked

    def create(self, row: Row, inputs: Values) -> tuple[str, Values]:
        """Make a resource. Raises AwsError, or HalfMadeError when it exists but is not complete."""
        values = {**self.cloud.given(), **inputs}
        for needed in row.needs:
            if not self.cloud.exists(needed.find, values):
                raise AwsError(
                    row.token, "ResourceNotFoundException", f"there is no {fill(needed.what, values)}"
                )
        identity = self._make(row, values)
        values["id"] = identity
        self._keep(row, identity, inputs, self._fixed(row, values))
        try:
            for step in (*row.after, *self._first_settings(row, inputs)):
                self._take(step, values)
            if inputs.get("tagsAll") and row.tagging and not row.tags_kept:
                self.cloud.call(row.tagging.add, values)
        except AwsError as error:
            raise HalfMadeError(identity, {**inputs, "id": identity}, error) from error
        found = self.read(row, identity, inputs, {})
        if found is None:
            raise AwsError(row.token, "NotFound", f"{identity} was made and is not there")
        return identity, found[1]

    def _make(self, row: Row, values: Values) -> str:
        answer = self.cloud.call(row.create, values) if row.create else None
        made_up = row.identity(values) if callable(row.identity) else fill(row.identity, values)
        identity = str(made_up if row.identity else answer)
        if row.held and self._is_there(row, identity, values):
            raise AwsError(row.token, "ResourceInUseException", f"{identity} exists already")
        return identity

    def _is_there(self, row: Row, identity: str, values: Values) -> bool:
        if not row.unique:
            return self.cloud.held.read(row.token, identity) is not None
        wanted = fill(row.unique, values)
        return any(fill(row.unique, note["kept"]) == wanted for note in self.cloud.held.all(row.token))

    def _fixed(self, row: Row, values: Values) -> Values:
        """Outputs of a kept resource, made up once."""
        outputs = {
            name: fill(text[1:], values) for name, text in row.outputs.items() if isinstance(text, str)
        }
        return outputs if row.held else {}

    def _keep(self, row: Row, identity: str, inputs: Values, outputs: Values) -> None:
        if row.keeps:
            kept = {name: value for name, value in inputs.items() if row.held or name in row.kept}
            self.cloud.held.write(row.token, identity, {"kept": kept, "outputs": outputs})

    def _first_settings(self, row: Row, inputs: Values) -> list[Step]:
        taken = row.taken()
        return _unique(
            step for name, step in row.settings.items() if inputs.get(name) is not None and name not in taken
        )

    def _take(self, step: Step, values: Values) -> Any:
        return self.cloud.call(step, values) if isinstance(step, Call) else step(self.cloud, values)

    def read(self, row: Row, identity: str, inputs: Values, outputs: Values) -> tuple[Values, Values] | None:
        """Inputs and outputs as they are in the cloud; None when there is no such resource."""
        values = {**self.cloud.given(), **outputs, **inputs, "id": identity}
        seen, note = self._look(row, values)
        if seen is None:
            return None
        kept = note.get("kept", {})
        found = {name: self._seen(row, name, value, seen, kept, values) for name, value in inputs.items()}
        if not inputs:
            found = {
                name: camel(value)
                for name in sdk_types.inputs(row.token)
                if name not in TAG_PROPERTIES and (value := find(seen, name)) not in (MISSING, None)
            }
        found = {name: value for name, value in found.items() if value is not MISSING}
        self._read_tags(row, seen, values, found)
        return found, {
            **self._scalars(row, seen),
            **note.get("outputs", {}),
            **found,
            **self._row_outputs(row, seen, values),
            **({"region": self.cloud.region} if "region" in sdk_types.outputs(row.token) else {}),
            **({"arn": fill(row.arn, {**values, **found})} if row.arn else {}),
        }

    def _look(self, row: Row, values: Values) -> tuple[Any, Values]:
        note = (self.cloud.held.read(row.token, values["id"]) or {}) if row.keeps else {}
        if row.read is None:
            return (note.get("kept"), note) if note else (None, {})
        try:
            seen = self.cloud.call(row.read, values)
        except AwsError as error:
            if not error.gone:
                raise
            seen = None
        return (seen or None), note

    def _seen(self, row: Row, name: str, value: Any, seen: Any, kept: Values, values: Values) -> Any:
        if name.startswith("__") or name in row.own.split() or name in TAG_PROPERTIES:
            return value
        if row.held or name in row.kept:
            return kept.get(name, MISSING)
        reader = row.reads.get(name)
        return as_given(value, find(seen, name) if reader is None else self._by(reader, seen, values))

    def _by(self, reader: Reader, seen: Any, values: Values) -> Any:
        if reader == "":
            return MISSING
        if isinstance(reader, str):
            return jmespath.search(fill_path(reader, values), seen)
        return self._take(reader, {**values, "seen": seen})

    def _read_tags(self, row: Row, seen: Any, values: Values, found: Values) -> None:
        if not row.tagging or row.tags_kept:
            return
        try:
            answer = as_mapping(self._by(row.tagging.read, seen, values))
        except AwsError as error:
            if not error.gone:
                raise
            answer = {}
        own = {name: value for name, value in answer.items() if not name.startswith("aws:")}
        declared = found.get("tags") or {}
        found["tags"] = {
            name: value
            for name, value in own.items()
            if name in declared or self.default_tags.get(name) != value
        }
        found["tagsAll"] = own
        for name in TAG_PROPERTIES:
            if not found[name] and not (values.get(name) and name == "tagsAll"):
                del found[name]

    def _scalars(self, row: Row, seen: Any) -> Values:
        """Outputs that the SDK names and the answer holds."""
        if not isinstance(seen, Mapping):
            return {}
        pairs = (
            (name, _scalar(find(seen, name), kind)) for name, kind in sdk_types.outputs(row.token).items()
        )
        return {name: value for name, value in pairs if value is not None}

    def _row_outputs(self, row: Row, seen: Any, values: Values) -> Values:
        if row.held:
            return {}
        pairs = ((name, self._output(reader, seen, values)) for name, reader in row.outputs.items())
        return {name: value for name, value in pairs if value is not None and value is not MISSING}

    def _output(self, reader: Reader, seen: Any, values: Values) -> Any:
        if isinstance(reader, str) and reader.startswith("="):
            return fill(reader[1:], values)
        value = self._by(reader, seen, values)
        return camel(value)

    def update(self, row: Row, identity: str, outputs: Values, olds: Values, news: Values) -> Values:
        """Change what differs. Raises AwsError, also for a property that nothing here can change."""
        changed = changed_names(olds, news)
        removed = {name: None for name in olds if name not in news}
        values = {**self.cloud.given(), **outputs, **removed, **news, "id": identity, "old": olds}
        steps: list[Step] = []
        for name in sorted(changed - TAG_PROPERTIES):
            if name in row.settings:
                steps.append(row.settings[name])
            elif not (row.held or name in row.kept or name in row.own.split() or name == "region"):
                raise AwsError(row.token, "NotSupported", f"the stand-in has no call that changes {name}")
        for step in _unique(steps):
            self._take(step, values)
        self._change_tags(row, olds, values)
        if row.keeps:
            note = self.cloud.held.read(row.token, identity) or {}
            self._keep(row, identity, news, note.get("outputs", {}))
        found = self.read(row, identity, news, outputs)
        if found is None:
            raise AwsError(row.token, "NotFound", f"{identity} is not there any more")
        return found[1]

    def _change_tags(self, row: Row, olds: Values, values: Values) -> None:
        before, after = olds.get("tagsAll") or {}, values.get("tagsAll") or {}
        if not row.tagging or row.tags_kept or before == after:
            return
        gone = sorted(set(before) - set(after))
        if gone:
            self.cloud.call(
                row.tagging.remove,
                {**values, "tagKeys": gone, "tagKeyList": [{"Key": name} for name in gone]},
            )
        if after:
            self.cloud.call(row.tagging.add, values)

    def delete(self, row: Row, identity: str, outputs: Values) -> None:
        """Delete a resource. Raises AwsError when something else still uses it, as AWS does."""
        values = {**self.cloud.given(), **outputs, "id": identity}
        if self._look(row, values)[0] is not None:
            self._refuse_held(row, values)
            for step in row.delete:
                try:
                    self._take(step, values)
                except AwsError as error:
                    if not error.gone:
                        raise
        self.cloud.held.remove(row.token, identity)

    def _refuse_held(self, row: Row, values: Values) -> None:
        for holder in row.holders:
            names = self._take(holder.find, values)
            if names:
                shown = ", ".join(map(str, names if isinstance(names, list) else [names]))
                raise AwsError(
                    row.token,
                    "DependencyViolation",
                    f"{values['id']} cannot be deleted: {holder.who} {shown}",
                )


def _scalar(value: Any, kind: Any) -> Any:
    if kind not in (str, int, bool) or value is MISSING or value is None:
        return None
    if isinstance(value, datetime):
        value = value.isoformat()
    if not isinstance(value, str | int | bool):
        return None
    if kind is bool:
        return value if isinstance(value, bool) else str(value).lower() == "true"
    return kind(value)


def _unique(steps: Iterable[Step]) -> list[Step]:
    seen: list[Step] = []
    for step in steps:
        if step not in seen:
            seen.append(step)
    return seen


def changed_names(olds: Mapping[str, Any], news: Mapping[str, Any]) -> set[str]:
    """The properties that differ."""
    names = {name for name in (*olds, *news) if not name.startswith("__")}
    return {name for name in names if olds.get(name) != news.get(name)}


def replacing(row: Row, olds: Values, news: Values) -> list[str]:
    """The changed properties that make a new resource, as paths."""
    return [path for path in row.replaces.split() if _at(olds, path) != _at(news, path)]


def _at(values: Any, path: str) -> Any:
    for name in path.split("."):
        values = values.get(name) if isinstance(values, Mapping) else None
    return values
