"""The composition root: from what a person names to a runtime that works. Concrete parts are picked here."""
