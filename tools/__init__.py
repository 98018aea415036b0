"""Finds or builds the real programs that tests and the rehearsal run: etcd, Kubernetes, the Pulumi engine.

Each is pinned by a Go module in a folder here (`go.mod` and `go.sum`), because Go modules are the one
registry that serves all of them as source. Only the standard library is used, so that `python -m tools`
runs before any virtual environment exists.
"""
