"""One program for each system: run by a Python of its own, they do the workloads and print what they took."""
