"""A line of text that remembers what was done to it."""


class Editor:
    """A text with undo and redo."""

    def __init__(self, text=""):
        self.text = text
        self.before = []
        self.after = []

    def change(self, text):
        """Make this the text. What was undone before can no longer be redone."""
        self.before.append(self.text)
        self.after.clear()
        self.text = text

    def insert(self, place, piece):
        """Put a piece in at a place; a place behind the end means the end."""
        place = min(place, len(self.text))
        self.change(self.text[:place] + piece + self.text[place:])

    def delete(self, start, end):
        """Take out the characters from start up to, but not including, end."""
        if start < end:
            self.change(self.text[:start] + self.text[end:])

    def undo(self):
        """Go back one change; whether there was one."""
        if not self.before:
            return False
        self.after.append(self.text)
        self.text = self.before.pop()
        return True

    def redo(self):
        """Do again what was undone last; whether there was something."""
        if not self.after:
            return False
        self.before.append(self.text)
        self.text = self.after.pop()
        return True
