"""The Redis tier of the distributed queue."""
