from stairs import climbs, collatz, longest_rise


def test_climbs():
    assert [climbs(n) for n in range(7)] == [1, 1, 2, 4, 7, 13, 24]


def test_no_stair():
    assert climbs(-1) == 0


def test_many_steps():
    assert climbs(30) == 53798080


def test_collatz():
    assert collatz(1) == [1]
    assert collatz(6) == [6, 3, 10, 5, 16, 8, 4, 2, 1]


def test_longest_rise():
    assert longest_rise([5, 1, 2, 4, 4, 5]) == 3
    assert longest_rise([3, 2, 1]) == 1
    assert longest_rise([-2, -1, 0, 1]) == 4


def test_no_numbers():
    assert longest_rise([]) == 0
