"""Mutation testing of the pure core: a fault that no test notices is a test that is missing."""
