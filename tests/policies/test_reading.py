"""Reading: values, lines, and what must not bring the reader down."""

from __future__ import annotations

import pytest

from guardrails import check
from guardrails.reading import MAX_DEPTH, UnreadableError, inner_mapping, read_json, read_yaml


def test_values_are_those_of_yaml():
    """Types as a cluster sees them."""
    (document,) = read_yaml("a: 1\nb: '1'\nc: 1.5\nd: true\ne: ~\nf: [x, y]\ng: {h: 0o17}\ni: 1e3\n")
    assert document.value == {
        "a": 1, "b": "1", "c": 1.5, "d": True, "e": None, "f": ["x", "y"], "g": {"h": 15}, "i": 1000.0,
    }  # fmt: skip


def test_lines():
    """Every value has a line, also behind Windows line ends; a missing one has that of its parent."""
    (document,) = read_yaml("a:\r\n  b:\r\n    - c: 1\r\n    - d: 2\r\n")
    assert document.line_of(("a", "b", 1, "d")) == 4
    assert document.line_of(("a", "b", 1, "missing")) == 4
    assert document.line_of(("a",)) in (1, 2)


def test_lines_inside_a_serve_document():
    """A block scalar that holds YAML is looked into."""
    text = "spec:\n  serveConfigV2: |\n    applications:\n    - name: llm\n      import_path: x\n"
    (document,) = read_yaml(text)
    assert document.line_of(("spec", "serveConfigV2", "applications", 0, "import_path")) == 5


def test_anchors_and_merges():
    """What aliases stand for, and merged keys below own ones."""
    (document,) = read_yaml("base: &b {x: 1, y: 2}\nmade:\n  <<: *b\n  y: 3\nlist: [*b]\n")
    assert document.value["made"] == {"x": 1, "y": 3}
    assert document.value["list"] == [{"x": 1, "y": 2}]


def test_repeated_keys():
    """The last one counts, and both lines are known."""
    (document,) = read_yaml("a: 1\nb: 2\na: 3\n")
    assert document.value == {"a": 3, "b": 2}
    assert document.repeated == [("a", 3, 1)]


def test_documents():
    """One after the other; those before a fault are read."""
    documents = read_yaml("a: 1\n---\nb: 2\n---\nc: [\n")
    assert next(documents).value == {"a": 1}
    assert next(documents).value == {"b": 2}
    with pytest.raises(UnreadableError) as error:
        next(documents)
    assert error.value.line in (5, 6)


@pytest.mark.parametrize(
    "text",
    ["[" * 5000, "a: " + "{b: " * 5000, "\t- a", "a: b: c", "&a [*a, *a]" , "- &a x\n- *missing"],
)  # fmt: skip
def test_what_cannot_be_read_says_so(text):
    """An error with a sentence, never a crash."""
    with pytest.raises(UnreadableError):
        list(read_yaml(text))


def test_aliases_that_multiply():
    """A billion laughs are not told."""
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]" for n in range(1, 10)]
    with pytest.raises(UnreadableError):
        list(read_yaml("\n".join(lines)))


def test_nesting_within_reason():
    """Real files are far from the limit."""
    depth = MAX_DEPTH // 4
    (document,) = read_yaml("[" * depth + "]" * depth)
    assert document.value is not None


def test_json_lines():
    """JSON has lines too."""
    document = read_json('{\n "spec": {\n  "image": "x"\n }\n}\n')
    assert document.line_of(("spec", "image")) == 3
    with pytest.raises(UnreadableError) as error:
        read_json('{\n "a": ,\n}')
    assert error.value.line == 2


def test_deep_json():
    """As for YAML."""
    with pytest.raises(UnreadableError, match="is nested too deeply"):
        read_json("[" * 600 + "]" * 600)


@pytest.mark.parametrize("text", ["true", "1", "null", '"x"', "[]", "{}"])
def test_json_of_one_value(text):
    """Nothing to check, and no fault."""
    assert read_json(text).line_of(("a",)) == 1


@pytest.mark.parametrize("text", ["[" * 200_000, "{" * 200_000, "- " * 100_000 + "x", '{"a": ' * 100_000])
@pytest.mark.parametrize("field", ["serveConfigV2", "runtimeEnvYAML"])
def test_deep_documents_inside_objects(text, field):
    """Texts inside objects are read as carefully; libyaml's own composer would overflow the stack."""
    kind = "RayJob" if field == "runtimeEnvYAML" else "RayService"
    body = {"apiVersion": "ray.io/v1", "kind": kind, "metadata": {"name": "x"}, "spec": {field: text}}
    found = {finding.rule for finding in check([body])}
    assert "serve-document-invalid" in found or kind == "RayJob"


@pytest.mark.parametrize(
    ("text", "value"),
    [('{\n\t"a": 1}', {"a": 1}), ("a: 1", {"a": 1}), ("", {}), ("- a", {}), ("a: [", {}), ('{"a": ', {})],
)
def test_mappings_inside_objects(text, value):
    """JSON or YAML, and nothing where it is neither."""
    assert inner_mapping(text) == value
