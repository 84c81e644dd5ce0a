"""What other projects published, predicted from what else they published: an application on the public API."""
