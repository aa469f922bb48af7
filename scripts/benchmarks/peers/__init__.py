"""The engine beside other systems that do the same work, in one run on one machine."""
