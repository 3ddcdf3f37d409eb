"""Measurements of the real server, one module per question; `python -m benchmarks` runs them all."""
