"""Times of day."""


class Clock:
    """A time of day in hours and minutes; after 23:59 comes 00:00."""

    def __init__(self, hour, minute=0):
        total = (hour * 60 + minute) % 1440
        self.hour = total // 60
        self.minute = total % 60

    def plus(self, minutes):
        """The time that many minutes later."""
        return Clock(self.hour, self.minute + minutes)

    def until(self, other):
        """The minutes from this time to the next time that it is `other`."""
        hours = other.hour - self.hour
        minutes = other.minute - self.minute
        return (hours * 60 + minutes) % 1440

    def text(self):
        """Like '07:05'."""
        return str(self.hour).zfill(2) + ":" + str(self.minute).zfill(2)

    def spoken(self):
        """Like '7:05 am' or '12:30 pm'; noon is 12:00 pm and midnight is 12:00 am."""
        half = "am" if self.hour < 12 else "pm"
        hour = self.hour % 12
        if hour == 0:
            hour = 12
        return f"{hour}:{self.minute:02} {half}"


def parse(text):
    """The clock of a text such as '7:05'; ValueError if there is no such time."""
    hour, _, minute = text.partition(":")
    if not 0 <= int(hour) < 24 or not 0 <= int(minute) < 60:
        raise ValueError(text)
    return Clock(int(hour), int(minute))
