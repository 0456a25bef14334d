"""Small programs with tests, and ways to break them: can a model mend them?"""
