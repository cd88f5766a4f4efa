"""A module of the user's, which bears the name of one of Python's."""


def median(values):
    return sorted(values)[len(values) // 2]
