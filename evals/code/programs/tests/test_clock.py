from clock import Clock, parse


def fails(text):
    try:
        parse(text)
    except ValueError:
        return True
    return False


def test_text():
    assert Clock(7, 5).text() == "07:05"
    assert Clock(23).text() == "23:00"


def test_going_round():
    assert Clock(24).text() == "00:00"
    assert Clock(0, -1).text() == "23:59"


def test_plus():
    assert Clock(10, 50).plus(15).text() == "11:05"
    assert Clock(23, 59).plus(2).text() == "00:01"
    assert Clock(0, 10).plus(-20).text() == "23:50"


def test_until():
    assert Clock(8, 30).until(Clock(10, 15)) == 105
    assert Clock(23, 0).until(Clock(1, 30)) == 150
    assert Clock(5).until(Clock(5)) == 0


def test_spoken():
    assert Clock(0).spoken() == "12:00 am"
    assert Clock(7, 5).spoken() == "7:05 am"
    assert Clock(12, 30).spoken() == "12:30 pm"
    assert Clock(23, 1).spoken() == "11:01 pm"


def test_parse():
    assert parse("7:05").text() == "07:05"
    assert parse("0:00").text() == "00:00"
    assert parse("23:59").text() == "23:59"
    assert fails("24:00")
    assert fails("7:60")
    assert fails("-1:00")
    assert fails("noon")
