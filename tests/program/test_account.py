"""Questions to an account, put to moto: what `llmp preflight --live` and `llmp pins --live` say."""

import pytest
from moto import mock_aws
from typer.testing import CliRunner

from llmp.__main__ import app
from tests.conftest import ROOT


@pytest.fixture
def account(monkeypatch: pytest.MonkeyPatch):
    """Credentials that only moto accepts."""
    for key in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(key, "testing")
    with mock_aws():
        yield


def _run(*arguments: str):
    return CliRunner().invoke(app, [*arguments])


def test_preflight_lists_commands() -> None:
    """Without --live it lists needs and the commands that show what the account has, and asks nobody."""
    done = _run("preflight", "--stack", "prod", "--folder", str(ROOT))

    assert done.exit_code == 0
    assert "192 vCPUs of Running On-Demand P instances (p4d)" in done.stdout
    assert "--quota-code L-417A185B" in done.stdout
    assert "g5.12xlarge in us-west-2a, us-west-2b, us-west-2c" in done.stdout


def test_preflight_refuses_another_account(monkeypatch: pytest.MonkeyPatch) -> None:
    """Credentials of another account are named, and nothing more is asked."""
    monkeypatch.setattr("llmp.preflight.account_id", lambda region: "999988887777")
    done = _run("preflight", "--stack", "prod", "--live", "--folder", str(ROOT))

    assert done.exit_code == 2
    assert "the credentials are of account 999988887777, the stack may touch only 111122223333" in done.output


def test_preflight_without_credentials_is_a_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    """No credentials: AWS's words, no traceback."""
    for key in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_PROFILE"):
        monkeypatch.delenv(key, raising=False)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", "/nonexistent")
    done = _run("preflight", "--stack", "prod", "--live", "--folder", str(ROOT))

    assert done.exit_code == 2
    assert "AWS does not answer: Unable to locate credentials" in done.output


def test_preflight_compares(monkeypatch: pytest.MonkeyPatch) -> None:
    """Too small a quota and a zone without the type are named; exit code 1."""
    monkeypatch.setattr("llmp.preflight.account_id", lambda region: "111122223333")
    monkeypatch.setattr(
        "llmp.preflight.account_quota", lambda region: lambda code: 96.0 if code == "L-417A185B" else 5000.0
    )
    monkeypatch.setattr("llmp.preflight.zones_offering", lambda name, region: ("us-west-2a", "us-west-2b"))
    done = _run("preflight", "--stack", "prod", "--live", "--folder", str(ROOT))

    assert done.exit_code == 1
    assert "TOO FEW: Running On-Demand P instances: needs 192, has 96" in done.stdout
    assert "enough: Running On-Demand G and VT instances: needs 432, has 5000" in done.stdout
    assert "g5.12xlarge: not in us-west-2c (offered in us-west-2a, us-west-2b)" in done.stdout
    assert "p4d.24xlarge: offered (offered in us-west-2a, us-west-2b)" in done.stdout


@pytest.mark.usefixtures("account")
def test_zones_are_asked_of_ec2() -> None:
    """The question about zones is one that EC2 understands (moto knows real offerings)."""
    from components.aws_account import zones_offering  # noqa: PLC0415 - inside the mock

    assert zones_offering("g5.12xlarge", "us-west-2") == ("us-west-2a", "us-west-2b", "us-west-2c")


def test_pins_lists_everything() -> None:
    """Every chart, image and add-on is listed, and what is unconfirmed says so."""
    done = _run("pins")

    assert done.exit_code == 0
    assert "chart kuberay-operator 1.7.0 from https://ray-project.github.io/kuberay-helm" in done.stdout
    assert "add-on vpc-cni v1.23.0-eksbuild.1 (unconfirmed: " in done.stdout
