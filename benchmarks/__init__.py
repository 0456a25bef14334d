"""What Placet costs, as ratios taken in one run. Never part of the tests: a timed test is a flaky one."""
