from account import Account, add_interest


def full(cents, limit=0):
    account = Account("Ann", limit)
    account.deposit(cents)
    return account


def test_new_account_is_empty():
    account = Account("Ann")
    assert (account.owner, account.balance, account.history) == ("Ann", 0, [])


def test_deposit_must_be_positive():
    account = full(1)
    for cents in (0, -5):
        try:
            account.deposit(cents)
        except ValueError:
            continue
        raise AssertionError("no error")
    assert account.balance == 1


def test_withdraw_all_but_not_more():
    account = full(100)
    assert account.withdraw(101) is False
    assert account.withdraw(100) is True
    assert account.balance == 0
    assert account.history == [("deposit", 100), ("withdraw", 100)]


def test_limit():
    account = full(100, limit=50)
    assert account.withdraw(150)
    assert account.balance == -50
    assert not account.withdraw(1)


def test_transfer():
    ann, bob = full(80), full(10)
    assert ann.transfer(bob, 30) is True
    assert (ann.balance, bob.balance) == (50, 40)
    assert ann.transfer(bob, 60) is False
    assert (ann.balance, bob.balance) == (50, 40)


def test_interest():
    assert add_interest(full(1050), 3) == 1081
    assert add_interest(Account("Eve"), 3) == 0
    assert add_interest(full(100), 1) == 101
    assert add_interest(full(99), 1) == 99
