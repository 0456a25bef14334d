from stock import Stock


def shop():
    stock = Stock()
    stock.add("pen", 10, 50)
    stock.add("cup", 3, 400)
    return stock


def test_value():
    assert shop().value() == 1700
    assert Stock().value() == 0


def test_take():
    stock = shop()
    assert stock.take("pen", 4) == 200
    assert stock.counts["pen"] == 6


def test_take_the_last():
    stock = shop()
    assert stock.take("cup", 3) == 1200
    assert "cup" not in stock.counts
    assert stock.value() == 500


def test_too_few():
    stock = shop()
    for item, count in (("cup", 4), ("hat", 1)):
        try:
            stock.take(item, count)
        except KeyError:
            continue
        raise AssertionError("no error")
    assert stock.value() == 1700


def test_add_more_at_a_new_price():
    stock = shop()
    stock.add("pen", 2, 60)
    assert stock.counts["pen"] == 12
    assert stock.value() == 12 * 60 + 1200


def test_scarce():
    stock = shop()
    stock.add("bag", 2, 1)
    assert stock.scarce(4) == ["bag", "cup"]
    assert stock.scarce(3) == ["bag"]
