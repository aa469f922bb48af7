"""What people ask: views derived from the journal."""
