"""The wire formats: requests into HTTP bodies, answers out of them. Pure: nothing is sent from here."""
