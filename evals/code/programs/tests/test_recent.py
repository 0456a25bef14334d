from recent import Recent


def test_value_comes_back():
    cache = Recent(2)
    cache.put("a", 1)
    assert cache.get("a") == 1
    assert cache.get("b") is None
    assert cache.get("b", 7) == 7


def test_oldest_goes():
    cache = Recent(2)
    for key in "abc":
        cache.put(key, key.upper())
    assert cache.keys() == ["b", "c"]
    assert cache.get("c") == "C"


def test_reading_is_a_use():
    cache = Recent(2)
    cache.put("a", 1)
    cache.put("b", 2)
    cache.get("a")
    cache.put("c", 3)
    assert cache.keys() == ["a", "c"]


def test_writing_again_is_a_use_and_drops_nothing():
    cache = Recent(2)
    cache.put("a", 1)
    cache.put("b", 2)
    cache.put("a", 3)
    assert cache.keys() == ["b", "a"]
    assert cache.get("a") == 3


def test_counts():
    cache = Recent(1)
    cache.get("a")
    cache.get("z")
    cache.put("a", 1)
    cache.get("a")
    assert (cache.hits, cache.misses) == (1, 2)
