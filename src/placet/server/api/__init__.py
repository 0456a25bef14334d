"""The endpoints of the JSON API, by subject."""
