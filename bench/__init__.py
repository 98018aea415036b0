"""Load against endpoints, comparisons and pictures; and the real Ray Serve and vLLM on loopback to load."""
