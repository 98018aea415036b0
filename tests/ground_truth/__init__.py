"""Published measurements, what the product says about each, and the bars that this must meet."""
