"""Sizing: does a model fit, how fast, at what price, how long to start, how many replicas. Pure functions over facts."""
