"""A small valid stack file, to be broken in one place at a time."""

from components.settings import PlatformSettings, stack_file
from components.settings.problems import SettingsError

NAME = "Pulumi.test.yaml"
TEXT = """\
# Line 1.
config:
  llm-platform:platform:
    region: us-west-2
    accountId: "111122223333"
    network:
      cidr: 10.0.0.0/16
      zones: [us-west-2a, us-west-2b]
    cluster:
      create:
        name: llm-test
        kubernetesVersion: "1.36"
    gpuPools:
      - name: g5
        instanceTypes: [g5.2xlarge]
        limits: {gpus: 4}
        disruption:
          budgets:
            - nodes: "1"
    models:
      - name: llama-8b
        source:
          kind: s3
          prefix: llama-8b
          revision: v1
        architecture: llama-3.1-8b
        pool: g5
        tensorParallel: 1
        engine:
          maxModelLen: 8192
        scaling: {minReplicas: 1, maxReplicas: 2}
"""


def settings(*changes: tuple[str, str]) -> PlatformSettings:
    """The settings of the file after some replacements."""
    return stack_file.settings_of(stack_file.parse(changed(*changes), NAME))


def changed(*changes: tuple[str, str]) -> str:
    """The text after some replacements, each of which must hit once."""
    text = TEXT
    for old, new in changes:
        assert text.count(old) == 1, old
        text = text.replace(old, new)
    return text


def said(*changes: tuple[str, str]) -> list[str]:
    """What a person reads after some replacements, without the file's name; empty if nothing is wrong."""
    return said_of(changed(*changes))


def said_of(text: str) -> list[str]:
    """What a person reads about a text."""
    try:
        stack_file.settings_of(stack_file.parse(text, NAME))
    except SettingsError as error:
        return [line.removeprefix(f"{NAME}:") for line in str(error).splitlines()]
    return []
