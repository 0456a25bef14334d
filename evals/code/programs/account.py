"""A bank account in whole cents."""


class Account:
    """Money of one owner. It may go below zero, but not further than `limit` cents."""

    def __init__(self, owner, limit=0):
        self.owner = owner
        self.limit = limit
        self.balance = 0
        self.history = []

    def deposit(self, cents):
        """Add money; ValueError if it is not more than nothing."""
        if cents <= 0:
            raise ValueError("nothing to deposit")
        self.balance += cents
        self.history.append(("deposit", cents))

    def withdraw(self, cents):
        """Take money out; False, and nothing happens, if there is not enough."""
        if self.balance - cents < -self.limit:
            return False
        self.balance -= cents
        self.history.append(("withdraw", cents))
        return True

    def transfer(self, other, cents):
        """Move money to another account; whether there was enough."""
        if not self.withdraw(cents):
            return False
        other.deposit(cents)
        return True


def add_interest(account, percent):
    """Deposit that many percent of the balance, rounded down; nothing if the balance is not positive."""
    interest = account.balance * percent // 100
    if interest > 0:
        account.deposit(interest)
    return account.balance
