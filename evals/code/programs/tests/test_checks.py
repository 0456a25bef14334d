from checks import is_card, isbn_digit, luhn_sum


def test_luhn_sum():
    assert luhn_sum("7") == 7
    assert luhn_sum("34") == 10
    assert luhn_sum("59") == 10
    assert luhn_sum("123") == 8


def test_card():
    assert is_card("4111 1111 1111 1111")
    assert is_card("500000000009")


def test_wrong_digit():
    assert not is_card("4111 1111 1111 1112")
    assert not is_card("1411 1111 1111 1111")


def test_too_short():
    assert not is_card("18")
    assert not is_card("50000000017")


def test_not_digits():
    assert not is_card("4111-1111-1111-1111")
    assert not is_card("")


def test_isbn():
    assert isbn_digit("030640615") == "2"
    assert isbn_digit("080442957") == "X"
    assert isbn_digit("000000000") == "0"
