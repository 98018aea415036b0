"""One script per table of facts: each prints or writes the table again from the source that its docstring names."""
