"""Runs the platform on one machine with real parts: Kubernetes API server, Pulumi engine, Kubernetes provider.

What is simulated is named so wherever it is printed: nodes, pods and operators (`simulated_node.py`).
"""
