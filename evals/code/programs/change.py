"""Paying an amount in coins."""


def fewest_coins(amount, coins):
    """The smallest number of coins that make up the amount, or None if no coins do.

    Each kind of coin may be used as often as needed.
    """
    best = [0] + [None] * amount
    for part in range(1, amount + 1):
        for coin in coins:
            if coin > part or best[part - coin] is None:
                continue
            count = best[part - coin] + 1
            if best[part] is None or count < best[part]:
                best[part] = count
    return best[amount]


def ways_to_pay(amount, coins):
    """In how many different ways coins make up the amount; the order of the coins does not matter."""
    if amount == 0:
        return 1
    if amount < 0 or not coins:
        return 0
    return ways_to_pay(amount - coins[0], coins) + ways_to_pay(amount, coins[1:])
