"""An assistant that works with tools, asks before it goes far, and can be taken up again."""
