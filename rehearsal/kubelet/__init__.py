"""A small kubelet: the pods whose image has an environment on this machine run as processes in namespaces of their own.

Which images those are is the table in `images.py`; every other pod is left to the simulated nodes. Real here are each
pod's network namespace and address, each container's own file tree and process namespace, volumes, environment, probes,
restarts, graces and exit codes. Not real: images, users and capabilities of the security context, CPU and memory limits,
NetworkPolicy, and Service addresses (names lead straight to the ready endpoints, so a port must be the target port).
"""
