from cipher import decrypt, encrypt, shift


def test_shift():
    assert shift("a", 3) == "d"
    assert shift("y", 3) == "b"
    assert shift("b", -2) == "z"


def test_case_stays():
    assert shift("M", 1) == "N"
    assert shift("Z", 1) == "A"


def test_other_characters_stay():
    assert shift("!", 5) == "!"
    assert shift(" ", 5) == " "


def test_encrypt():
    assert encrypt("abc", "b") == "bcd"
    assert encrypt("Hello", "abc") == "Hfnlp"


def test_key_moves_only_at_letters():
    assert encrypt("a a-a", "bcd") == "b c-d"


def test_decrypt():
    assert decrypt("bcd", "b") == "abc"
    assert decrypt(encrypt("Meet me at noon!", "lemon"), "lemon") == "Meet me at noon!"
