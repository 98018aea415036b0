"""What a rehearsal does to a stack, one module per kind of scenario, and `table.SCENARIOS` with all of them.

Each invariant is looked at from outside the product's code: the API server, the AWS account, the engine's state file,
the users' traffic.
"""
