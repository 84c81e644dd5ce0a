"""A live run: sessions, the worker's step loop, the decode state, and what is recorded."""
