"""The PostgreSQL tier of the distributed queue."""
