"""Groups of people who know each other."""


class Groups:
    """People start alone; those who meet are in one group with all whom they know."""

    def __init__(self, people):
        self.leader = {person: person for person in people}
        self.size = dict.fromkeys(people, 1)

    def find(self, person):
        """The leader of the group of a person."""
        while self.leader[person] != person:
            person = self.leader[person]
        return person

    def meet(self, a, b):
        """Make one group of the groups of two people; False if they were in one already.

        The leader of the larger group leads; of equal groups, that of the first person.
        """
        first = self.find(a)
        second = self.find(b)
        if first == second:
            return False
        if self.size[first] < self.size[second]:
            first, second = second, first
        self.leader[second] = first
        self.size[first] += self.size[second]
        return True

    def count(self):
        """How many groups there are."""
        return sum(1 for person, leader in self.leader.items() if person == leader)

    def members(self, person):
        """All people in the group of a person, sorted."""
        leader = self.find(person)
        return sorted(other for other in self.leader if self.find(other) == leader)
