"""How stacks of the platform reach their cloud: a small Pulumi program of its own."""
