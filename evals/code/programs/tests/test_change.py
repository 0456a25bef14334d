from change import fewest_coins, ways_to_pay


def test_greedy_is_not_best():
    assert fewest_coins(6, [1, 3, 4]) == 2
    assert fewest_coins(6, [4, 3, 1]) == 2


def test_common_coins():
    assert fewest_coins(63, [25, 10, 5, 1]) == 6


def test_nothing_to_pay():
    assert fewest_coins(0, [5]) == 0
    assert ways_to_pay(0, [5]) == 1


def test_impossible():
    assert fewest_coins(7, [2, 4]) is None
    assert ways_to_pay(7, [2, 4]) == 0
    assert ways_to_pay(3, []) == 0


def test_single_coin():
    assert fewest_coins(5, [5]) == 1
    assert fewest_coins(15, [5]) == 3
    assert fewest_coins(1, [1]) == 1
    assert fewest_coins(3, [1]) == 3


def test_ways():
    assert ways_to_pay(10, [5, 2, 1]) == 10
    assert ways_to_pay(4, [1, 2, 3]) == 4
