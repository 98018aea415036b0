"""Pure functions from settings to plain dicts, one module per kind of object. No Pulumi, no I/O beyond in_cluster/.

What a policy reads (images, taints, sizes, versions) is a plain value here, so it is known at preview.
"""
