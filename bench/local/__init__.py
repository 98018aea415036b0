"""The Serve document of a stack, answered by real Ray and vLLM on this machine's CPU, on loopback only."""
