"""What people ask: read models kept from the journal of all runs, and the questions to them."""
