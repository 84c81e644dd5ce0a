"""The answers page: the same results as a document for reading and as a page with figures."""
