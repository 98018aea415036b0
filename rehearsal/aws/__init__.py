"""The AWS half of a rehearsal: stand-ins for the AWS and EKS providers, over moto.

The program's `aws:*` resources are really created, changed, read and deleted, in a moto server on this machine. What
moto has no API for is kept by the stand-in itself (`table.held_types()` names it), and so is the fact that AWS refuses
to delete what something else still uses, which moto seldom does.

    table.py         every resource type, one row each (`rows_*.py`)
    row.py           what a row is
    resources.py     create, read, update and delete by a row
    shapes.py        from Pulumi's names and values to those of the AWS API, and back
    sdk_types.py     properties of a type, by the SDK's own classes
    provider.py      the gRPC server that the engine takes for `pulumi-resource-aws`
    eks_provider.py  the one it takes for `pulumi-resource-eks`
    cloud.py         the moto server's client, and what the stand-in keeps
    server.py        the moto server: start, wait, stop
    inventory.py     everything that exists, seen from outside the engine
"""
