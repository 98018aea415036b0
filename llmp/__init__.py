"""The command line. It takes arguments and gives words; what it says is computed elsewhere."""
