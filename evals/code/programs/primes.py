"""Prime numbers."""


def primes_below(limit):
    """All prime numbers smaller than the limit, in order."""
    is_prime = [True] * limit
    found = []
    for number in range(2, limit):
        if not is_prime[number]:
            continue
        found.append(number)
        for multiple in range(number * number, limit, number):
            is_prime[multiple] = False
    return found


def factors(number):
    """The prime factors of a number from 1 on, from small to large, repeated as often as they divide it."""
    found = []
    divisor = 2
    while divisor * divisor <= number:
        while number % divisor == 0:
            found.append(divisor)
            number //= divisor
        divisor += 1
    if number > 1:
        found.append(number)
    return found


def divisor_count(number):
    """How many numbers divide a number from 1 on without rest, 1 and itself among them."""
    count = 1
    for prime in set(factors(number)):
        count *= factors(number).count(prime) + 1
    return count
