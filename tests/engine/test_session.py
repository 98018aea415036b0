"""`python -m rehearsal` with the real engine on a small program: up, up again, down, and every odd order of them."""

from __future__ import annotations

import json
import os
import shutil
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from rehearsal import leftovers
from rehearsal.api import Api
from rehearsal.session import OPERATOR_NAMESPACES, Session
from tests.engine.helpers import SAMPLE, alive, pid_of, run_module, soon, start_module

pytestmark = pytest.mark.engine

MADE = 8  # the sample's resources, their provider and the stack itself
NETWORK = 2  # what the sample makes more with `llm-platform:network`


class Sample:
    """The command line on a copy of the sample program, with state in a folder of the test."""

    def __init__(self, folder: Path) -> None:
        self.program = folder / "program" / "__main__.py"
        shutil.copytree(SAMPLE.parent, self.program.parent)
        self.root = folder / "state"
        self.env = {"LLMP_REHEARSAL": str(self.root)}
        self.kubeconfig = self.root / "sample" / "plane" / "kubeconfig"

    def fails(self) -> str:
        """The words of an `up` that fails."""
        code, out, err = self.run("up")
        assert (code, out) == (1, "")
        return err.partition("rehearsal: pulumi up failed:\n")[2]

    def arguments(self, command: str, *more: str) -> list[str]:
        """The arguments of one command on the sample."""
        return ["-m", "rehearsal", command, "--stack", "sample", "--program", str(self.program), *more]

    def run(self, command: str, *more: str) -> tuple[int, str, str]:
        """Exit code, stdout and stderr of one command."""
        return run_module(*self.arguments(command, *more), env=self.env)

    def up(self) -> dict[str, int]:
        """The changes of a good `up`."""
        code, out, err = self.run("up", "--json")
        assert code == 0, err
        changes: dict[str, int] = json.loads(out)["changes"]
        return changes

    def with_network(self) -> None:
        """Let the sample make a Service and an Ingress too."""
        stack_file = self.program.parent / "Pulumi.sample.yaml"
        stack_file.write_text(stack_file.read_text() + "  llm-platform:network: true\n")

    def edit(self, old: str, new: str) -> None:
        """Change the program's text in one place."""
        text = self.program.read_text()
        assert old in text
        self.program.write_text(text.replace(old, new))


@pytest.fixture
def sample(tmp_path: Path) -> Iterator[Sample]:
    """A sample whose processes are ended whatever the test did."""
    yield from _sample(tmp_path)


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sample]:
    """One sample for tests that begin with `up`: what is up already costs them two seconds."""
    yield from _sample(tmp_path_factory.mktemp("shared"))


def _sample(folder: Path) -> Iterator[Sample]:
    made = Sample(folder)
    yield made
    made.run("down", "--discard")
    assert alive(str(made.root)) == {}


def test_round_trip(sample: Sample) -> None:
    """Up makes everything, a second up changes nothing, down leaves no object, process or file."""
    sample.with_network()
    code, out, err = sample.run("up")
    assert code == 0, err
    assert f"{MADE + NETWORK} created" in out
    assert "    1  kubernetes:apps/v1:Deployment\n" in out
    assert f"export KUBECONFIG={sample.kubeconfig}\n" in out
    assert "What is different on AWS:" in out

    assert sample.up() == {"same": MADE + NETWORK}
    assert "control plane: runs at https://127.0.0.1:" in sample.run("status")[1]
    with Api.from_kubeconfig(sample.kubeconfig) as api:
        assert "Deployment sample/web" in [
            row.name for row in leftovers.find(api, frozenset(OPERATOR_NAMESPACES))
        ]
        deployment = api.get("/apis/apps/v1/namespaces/sample/deployments/web")
        assert deployment is not None
        assert deployment["status"]["readyReplicas"] == 2

    code, out, err = sample.run("down")
    assert (code, err.splitlines()[-1]) == (0, "rehearsal: nothing of this program is left in the API server")
    assert "destroyed, nothing of it is left" in out
    assert alive(str(sample.root)) == {}
    assert not (sample.root / "sample").exists()


def test_down_first_and_twice(sample: Sample) -> None:
    """Down before any up says that there is nothing, and so does status."""
    assert sample.run("down") == (0, "Nothing is up for the stack sample.\n", "")
    assert sample.run("down", "--discard") == (0, "Nothing is up for the stack sample.\n", "")
    assert sample.run("status")[1].splitlines()[1:] == ["control plane: does not run", "state: none"]


def test_killed_control_plane(shared: Sample) -> None:
    """After its processes were killed, `up` starts them again and finds everything unchanged; so does `down`."""
    sample = shared
    sample.up()
    os.kill(pid_of(str(sample.root), "rehearsal.keeper"), signal.SIGKILL)
    assert soon(lambda: alive(str(sample.root)) == {})

    assert sample.up() == {"same": MADE}
    os.kill(pid_of(str(sample.root), "/kube-apiserver "), signal.SIGKILL)
    assert soon(lambda: alive(str(sample.root)) == {})
    code, out, err = sample.run("down")

    assert code == 0, err
    assert "destroyed, nothing of it is left" in out


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
def test_interrupted_up(sample: Sample, number: signal.Signals) -> None:
    """An `up` that is interrupted leaves no process; the next one converges and the one after changes nothing."""
    sample.with_network()  # the provider watches its Service for 10 s: time to interrupt
    with start_module(*sample.arguments("up"), env=sample.env) as process:
        # The engine is at work once the first object is in its state.
        assert soon(lambda: _at_work(sample) or process.poll() is not None, 300)
        process.send_signal(number)
        _, err = process.communicate(timeout=120)
    if number == signal.SIGINT:
        assert err.splitlines()[-1] == "rehearsal: interrupted; its processes are ended, the state is kept."

    assert soon(lambda: alive(str(sample.root)) == {})
    sample.up()
    assert sample.up() == {"same": MADE + NETWORK}


def _at_work(sample: Sample) -> bool:
    state = (
        sample.root / "sample" / "engine" / "backend" / ".pulumi" / "stacks" / "llm-platform" / "sample.json"
    )
    return state.is_file() and "core/v1:Namespace" in state.read_text()


def test_edited_by_hand(shared: Sample, monkeypatch: pytest.MonkeyPatch) -> None:
    """What was deleted by hand is made again after a refresh, which the next `up` needs to know of it."""
    sample = shared
    sample.up()
    with Api.from_kubeconfig(sample.kubeconfig) as api:
        api.delete("/api/v1/namespaces/sample/configmaps/settings")
    monkeypatch.setenv("LLMP_REHEARSAL", str(sample.root))
    engine = Session("sample", print, sample.program).engine()
    refreshed = engine.refresh()
    previewed = engine.preview()
    made = engine.up()

    assert refreshed.changes["delete"] == 1
    assert previewed.changed == 1
    assert made.changes == {"create": 1, "same": MADE - 1}


def test_program_error_is_shown_as_the_engine_has_it(shared: Sample) -> None:
    """An object that the server refuses fails `up` with the resource's name and the server's words, without traceback."""
    sample = shared
    sample.edit('data={"greeting": greeting}', 'data={"greeting": {"not": "text"}}')
    words = sample.fails()

    assert words.startswith("kubernetes:core/v1:ConfigMap::configmap-settings: ")
    assert "Traceback" not in words
    sample.edit('data={"greeting": {"not": "text"}}', 'data={"greeting": greeting}')
    assert sum(sample.up().values()) == MADE


def test_a_refusal_of_the_program_is_shown_as_it_is(shared: Sample) -> None:
    """A RunError's words are all that is shown."""
    sentence = "Pulumi.sample.yaml:3: cluster: what is wrong"
    shared.edit("greeting = ", f'raise pulumi.RunError("{sentence}")\ngreeting = ')
    words = shared.fails()
    shared.edit(f'raise pulumi.RunError("{sentence}")\n', "")

    assert words == f"{sentence}\n"


def test_dead_api_server_is_the_reason(shared: Sample) -> None:
    """When the API server dies in the middle of `up`, the message is its death and its log; the next `up` heals."""
    shared.up()
    shared.edit('"replicas": 2', '"replicas": 3')
    with start_module(*shared.arguments("up"), env=shared.env) as process:
        assert soon(
            lambda: any((shared.root / "sample" / "engine" / "backend").glob("**/locks/**/*.json")), 60
        )
        os.kill(pid_of(str(shared.root), "/kube-apiserver "), signal.SIGKILL)
        _, err = process.communicate(timeout=120)

    assert process.returncode == 1
    assert "rehearsal: kube-apiserver was ended by signal 9. The end of /" in err
    assert shared.up() == {"update": 1, "same": MADE - 1}
    shared.edit('"replicas": 3', '"replicas": 2')


def test_leftovers_are_named(shared: Sample) -> None:
    """An object of ours that the engine does not know makes `down` fail and is named, with what holds it."""
    sample = shared
    sample.up()
    stray = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {
            "name": "stray",
            "namespace": "default",
            "labels": {"app.kubernetes.io/managed-by": "llm-platform"},
        },
    }
    with Api.from_kubeconfig(sample.kubeconfig) as api:
        api.apply(stray)
        code, _, err = sample.run("down")
        api.delete("/api/v1/namespaces/default/configmaps/stray")

    assert code == 1
    assert "rehearsal: These objects are left after destroy:\n    ConfigMap default/stray\n" in err
    assert sample.run("down")[0] == 0


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (
            "config:\n  llm-platform:platform:\n    cluster: {}\n",
            "The stack says neither `cluster.create` nor `cluster.existing.context`",
        ),
        (
            "config: 1\n",
            "Pulumi.sample.yaml is not a stack file: it must be a mapping with the key `config`.",
        ),
        ("config: [\n", "Pulumi.sample.yaml is not YAML: "),
    ],
)
def test_a_stack_file_that_cannot_be_meant_is_refused(shared: Sample, text: str, words: str) -> None:
    """What is wrong with the input is said, with an exit code of its own, and nothing is started."""
    stack_file = shared.program.parent / "Pulumi.sample.yaml"
    before = stack_file.read_text()
    stack_file.write_text(text)
    code, out, err = shared.run("up")
    stack_file.write_text(before)

    assert (code, out) == (2, "")
    assert err.startswith(f"rehearsal: {words}")


def test_a_model_that_the_stack_does_not_have_is_refused(shared: Sample) -> None:
    """`--live` names models of the stack."""
    assert shared.run("up", "--live", "chat") == (
        2,
        "",
        "rehearsal: The stack has no model named chat; it has none.\n",
    )


def test_no_such_stack(shared: Sample) -> None:
    """A stack without a file, and a name that is no file's, are bad input."""
    arguments = ["-m", "rehearsal", "up", "--program", str(shared.program), "--stack"]
    for name, words in (
        ("other", "There is no stack file Pulumi.other.yaml: No such file or directory."),
        ("../x", "'../x' is not a stack's name: letters, digits, '.', '_' and '-' only."),
    ):
        assert run_module(*arguments, name, env=shared.env) == (2, "", f"rehearsal: {words}\n")


def test_secrets_get_a_stand_in(shared: Sample) -> None:
    """Encrypted values of the user's file are neither decrypted nor needed, and the file stays as it is."""
    sample = shared
    stack_file = sample.program.parent / "Pulumi.sample.yaml"
    before, program = stack_file.read_text(), sample.program.read_text()
    text = before + "  llm-platform:token:\n    secure: v1:abc:def\nencryptionsalt: v1:x:v1:y:z\n"
    stack_file.write_text(text)
    sample.edit(
        'pulumi.export("greeting", greeting)',
        'pulumi.export("length", pulumi.Config("llm-platform").require_secret("token").apply(len))',
    )
    code, _, err = sample.run("up")
    after = stack_file.read_text()
    stack_file.write_text(before)
    sample.program.write_text(program)

    assert code == 0, err
    assert "rehearsal: 1 secret of Pulumi.sample.yaml is replaced by a stand-in.\n" in err
    assert after == text
