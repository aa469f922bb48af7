"""Tools for testing workflows."""
