"""The report's page: one HTML file that needs nothing from outside."""
