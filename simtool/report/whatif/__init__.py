"""The what-if page: one step whose costs and order a reader changes in the browser, and what that is worth."""
