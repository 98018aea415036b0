"""The program run as the engine would in a preview, without engine, cloud or network, and what it would make."""
