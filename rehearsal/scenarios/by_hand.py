"""Scenario 12: somebody deletes or edits by hand, in the cluster and in AWS."""

from __future__ import annotations

from collections import Counter

from rehearsal.api import MERGE
from rehearsal.engine import Result
from rehearsal.scenarios.outcome import Outcome
from rehearsal.scenarios.stage import Stage


def by_hand(stage: Stage, outcome: Outcome) -> None:
    """Two deletions and two edits; refresh and preview show each, up heals each."""
    stage.ensure_up()
    before = stage.picture()["objects"]
    account = _vpc(stage), _targets(stage)
    touched = [_delete_config_map(stage), _edit_budget(stage), _edit_vpc(stage), _remove_targets(stage)]

    seen = stage.engine.refresh()
    outcome.equal("refresh: deleted", _names(seen, "delete"), sorted([touched[0], *touched[3].split(",")]))
    outcome.equal("refresh: changed", _names(seen, "update"), sorted([touched[1], touched[2]]))
    planned = stage.engine.preview()
    outcome.equal("preview: would create", _names(planned, "create"), _names(seen, "delete"))
    outcome.equal("preview: would update", _names(planned, "update"), _names(seen, "update"))
    healed = stage.up()
    done = Counter(row["operation"] for row in healed.steps)
    outcome.equal("up: created and updated", (done["create"], done["update"]), (1 + len(account[1]), 2))
    after = stage.picture()["objects"]
    differ = sorted(name for name in {*before, *after} if before.get(name) != after.get(name))
    outcome.equal("objects that are not as before", differ, [])
    outcome.equal("AWS as before", (_vpc(stage), sorted(_targets(stage))), (account[0], sorted(account[1])))


def _names(result: Result, operation: str) -> list[str]:
    return sorted(row["urn"].rpartition("::")[2] for row in result.steps if row["operation"] == operation)


def _urn_name(stage: Stage, token: str, **wanted: str) -> str:
    """The name in the state of the first resource of a type whose inputs or id are the wanted ones."""
    for row in stage.recorded():
        values = {**row.get("outputs", {}), **row.get("inputs", {}), "id": row.get("id", "")}
        values["name"] = values.get("metadata", {}).get("name", values.get("name", ""))
        if row["type"] == token and all(values.get(key) == value for key, value in wanted.items()):
            return str(row["urn"].rpartition("::")[2])
    return f"(no {token} with {wanted} in the state)"


def _first(stage: Stage, group: str, plural: str) -> tuple[str, str]:
    """Path and name of the first object of a kind in the models' namespace."""
    folder = f"{group}/namespaces/{stage.namespace}/{plural}"
    mine = [
        item["metadata"]["name"]
        for item in stage.api.items(folder, labelSelector="app.kubernetes.io/managed-by=llm-platform")
    ]
    return f"{folder}/{min(mine)}", min(mine)


def _delete_config_map(stage: Stage) -> str:
    path, name = _first(stage, "/api/v1", "configmaps")
    stage.api.delete(path)
    return _urn_name(stage, "kubernetes:core/v1:ConfigMap", name=name)


def _edit_budget(stage: Stage) -> str:
    path, name = _first(stage, "/apis/networking.k8s.io/v1", "networkpolicies")
    found = stage.api.get(path) or {}
    types = ["Ingress"] if len(found["spec"].get("policyTypes", [])) > 1 else ["Ingress", "Egress"]
    stage.api.request("PATCH", path, {"spec": {"policyTypes": types}}, MERGE, fieldManager="kubectl-edit")
    return _urn_name(stage, "kubernetes:networking.k8s.io/v1:NetworkPolicy", name=name)


def _vpc_id(stage: Stage) -> str:
    return str(stage.ask("ec2.describe_vpcs", "Vpcs[?!IsDefault].VpcId | [0]"))


def _vpc(stage: Stage) -> bool:
    answer = "EnableDnsHostnames.Value"
    return bool(
        stage.ask("ec2.describe_vpc_attribute", answer, VpcId=_vpc_id(stage), Attribute="enableDnsHostnames")
    )


def _edit_vpc(stage: Stage) -> str:
    identity = _vpc_id(stage)
    stage.ask("ec2.modify_vpc_attribute", VpcId=identity, EnableDnsHostnames={"Value": False})
    return _urn_name(stage, "aws:ec2/vpc:Vpc", id=identity)


def _rule(stage: Stage) -> str:
    return str(min(stage.ask("events.list_rules", "Rules[].Name")))


def _targets(stage: Stage) -> list[str]:
    return list(stage.ask("events.list_targets_by_rule", "Targets[].Id", Rule=_rule(stage)))


def _remove_targets(stage: Stage) -> str:
    rule, targets = _rule(stage), _targets(stage)
    stage.ask("events.remove_targets", Rule=rule, Ids=targets)
    names = [
        row["urn"].rpartition("::")[2]
        for row in stage.recorded()
        if row["type"] == "aws:cloudwatch/eventTarget:EventTarget" and row["inputs"].get("rule") == rule
    ]
    return ",".join(names)
