from ring import Ring


def filled(size, *values):
    ring = Ring(size)
    for value in values:
        ring.push(value)
    return ring


def test_values():
    assert Ring(3).values() == []
    assert filled(3, 1, 2).values() == [1, 2]


def test_oldest_goes():
    ring = filled(3, 1, 2, 3)
    assert ring.push(4) == 1
    assert ring.push(5) == 2
    assert ring.values() == [3, 4, 5]


def test_nothing_lost_while_there_is_room():
    ring = Ring(2)
    assert ring.push("a") is None
    assert ring.push("b") is None


def test_pull():
    ring = filled(2, 1, 2, 3)
    assert ring.pull() == 2
    assert ring.pull() == 3
    assert ring.values() == []


def test_pull_from_nothing():
    try:
        Ring(2).pull()
    except IndexError:
        return
    raise AssertionError("no error")


def test_push_after_pull():
    ring = filled(3, 1, 2, 3)
    ring.pull()
    ring.push(4)
    assert ring.values() == [2, 3, 4]
    assert ring.pull() == 2
    assert ring.pull() == 3
    assert ring.values() == [4]
