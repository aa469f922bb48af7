"""Tests, in the rooms of what they test."""
