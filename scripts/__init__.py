"""What a person runs while developing; each script says what it does when called with --help or read from its top."""
