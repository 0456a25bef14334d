from days import date_of, day_of_year, is_leap, month_length


def test_leap_years():
    assert [year for year in (1900, 1999, 2000, 2004, 2023, 2024, 2100) if is_leap(year)] == [
        2000,
        2004,
        2024,
    ]


def test_month_length():
    assert month_length(2023, 2) == 28
    assert month_length(2024, 2) == 29
    assert month_length(2024, 1) == 31
    assert month_length(2024, 12) == 31
    assert month_length(2024, 4) == 30


def test_first_day():
    assert day_of_year(2023, 1, 1) == 1


def test_last_day():
    assert day_of_year(2023, 12, 31) == 365
    assert day_of_year(2024, 12, 31) == 366


def test_date_of():
    assert date_of(2023, 1) == (1, 1)
    assert date_of(2023, 31) == (1, 31)
    assert date_of(2023, 60) == (3, 1)
    assert date_of(2024, 60) == (2, 29)
    assert date_of(2024, 366) == (12, 31)
