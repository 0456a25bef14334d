"""Days of a year, counted by hand."""

MONTHS = [31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31]


def is_leap(year):
    """Whether February has 29 days: every fourth year, but of the full hundreds only every fourth."""
    return year % 4 == 0 and (year % 100 != 0 or year % 400 == 0)


def month_length(year, month):
    """How many days a month has; January is 1."""
    if month == 2 and is_leap(year):
        return 29
    return MONTHS[month - 1]


def day_of_year(year, month, day):
    """The number of the day in its year; the first of January is 1."""
    total = day
    for earlier in range(1, month):
        total += month_length(year, earlier)
    return total


def date_of(year, number):
    """The month and the day of the day with this number in the year."""
    month = 1
    while number > month_length(year, month):
        number -= month_length(year, month)
        month += 1
    return month, number
