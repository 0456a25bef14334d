from primes import divisor_count, factors, primes_below


def test_small_primes():
    assert primes_below(30) == [2, 3, 5, 7, 11, 13, 17, 19, 23, 29]


def test_limit_is_not_included():
    assert primes_below(7) == [2, 3, 5]
    assert primes_below(2) == []
    assert primes_below(0) == []


def test_factors():
    assert factors(360) == [2, 2, 2, 3, 3, 5]
    assert factors(49) == [7, 7]


def test_factors_of_a_prime():
    assert factors(97) == [97]
    assert factors(2) == [2]
    assert factors(1) == []


def test_divisor_count():
    assert divisor_count(12) == 6
    assert divisor_count(1) == 1
    assert divisor_count(13) == 2
    assert divisor_count(36) == 9
