"""Functions of real numbers, all parameters always active.

Where a published optimum lies in the centre, in a corner or on a diagonal it is moved by fixed constants, so that no
sampler finds it by its first point or by equal coordinates.
"""
import math

from .base import Function, box, vector

SURJANOVIC = "Surjanovic and Bingham, Virtual Library of Simulation Experiments"
# Where shifted optima lie, as fractions of the range; irregular on purpose.
PLACES = (0.31, 0.67, 0.42, 0.78, 0.23, 0.59, 0.36, 0.71, 0.27, 0.64)


def shifts(low, high, size):
    """The coordinates of a shifted optimum."""
    return [low + (high - low) * place for place in PLACES[:size]]


def branin(x):
    a, b, c, t = 1.0, 5.1 / (4 * math.pi**2), 5 / math.pi, 1 / (8 * math.pi)
    return a * (x[1] - b * x[0] ** 2 + c * x[0] - 6) ** 2 + 10 * (1 - t) * math.cos(x[0]) + 10


HARTMANN_ALPHA = (1.0, 1.2, 3.0, 3.2)
HARTMANN_A = (
    (10, 3, 17, 3.5, 1.7, 8),
    (0.05, 10, 17, 0.1, 8, 14),
    (3, 3.5, 1.7, 10, 17, 8),
    (17, 8, 0.05, 10, 0.1, 14),
)
HARTMANN_P = (
    (0.1312, 0.1696, 0.5569, 0.0124, 0.8283, 0.5886),
    (0.2329, 0.4135, 0.8307, 0.3736, 0.1004, 0.9991),
    (0.2348, 0.1451, 0.3522, 0.2883, 0.3047, 0.6650),
    (0.4047, 0.8828, 0.8732, 0.5743, 0.1091, 0.0381),
)
HARTMANN_BEST = -3.322368011415515


def hartmann6(x, alpha=HARTMANN_ALPHA):
    total = 0.0
    for weight, a, p in zip(alpha, HARTMANN_A, HARTMANN_P):
        total += weight * math.exp(-sum(ai * (xi - pi) ** 2 for ai, xi, pi in zip(a, x, p)))
    return -total


def ackley(x):
    """0 at the origin."""
    size = len(x)
    squares = sum(xi * xi for xi in x) / size
    cosines = sum(math.cos(2 * math.pi * xi) for xi in x) / size
    return -20 * math.exp(-0.2 * math.sqrt(squares)) - math.exp(cosines) + 20 + math.e


def rosenbrock(x):
    return sum(100 * (b - a * a) ** 2 + (a - 1) ** 2 for a, b in zip(x, x[1:]))


def levy(x):
    """0 at (1, ..., 1)."""
    w = [1 + (xi - 1) / 4 for xi in x]
    middle = sum((wi - 1) ** 2 * (1 + 10 * math.sin(math.pi * wi + 1) ** 2) for wi in w[:-1])
    last = (w[-1] - 1) ** 2 * (1 + math.sin(2 * math.pi * w[-1]) ** 2)
    return math.sin(math.pi * w[0]) ** 2 + middle + last


def griewank(x):
    """0 at the origin."""
    product = math.prod(math.cos(xi / math.sqrt(i + 1)) for i, xi in enumerate(x))
    return sum(xi * xi for xi in x) / 4000 - product + 1


def rastrigin(x):
    """0 at the origin."""
    return sum(xi * xi - 10 * math.cos(2 * math.pi * xi) + 10 for xi in x)


def michalewicz(x):
    return -sum(math.sin(xi) * math.sin((i + 1) * xi * xi / math.pi) ** 20 for i, xi in enumerate(x))


def styblinski_tang(x):
    return sum(xi**4 - 16 * xi * xi + 5 * xi for xi in x) / 2


SHEKEL_C = (
    (4, 4, 4, 4), (1, 1, 1, 1), (8, 8, 8, 8), (6, 6, 6, 6), (3, 7, 3, 7),
    (2, 9, 2, 9), (5, 3, 5, 3), (8, 1, 8, 1), (6, 2, 6, 2), (7, 3.6, 7, 3.6),
)  # fmt: skip
SHEKEL_BETA = (0.1, 0.2, 0.2, 0.4, 0.4, 0.6, 0.3, 0.7, 0.5, 0.5)


def shekel(x):
    return -sum(
        1 / (sum((xi - ci) ** 2 for xi, ci in zip(x, c)) + beta) for c, beta in zip(SHEKEL_C, SHEKEL_BETA)
    )


def moved(function, low, high, size, origin=0.0):
    """The function of parameters in [low, high] with its optimum moved from `origin` to an irregular place."""
    places = shifts(low, high, size)

    def value(params):
        return function([x - place + origin for x, place in zip(vector(params, size), places)])

    return box([(low, high)] * size), value


def plain(function, bounds):
    """The function as published."""
    return box(bounds), lambda params: function(vector(params, len(bounds)))


def _numerical(name, split, space_and_value, best, source=SURJANOVIC, best_known=False):
    space, value = space_and_value
    return Function(name, "numerical", split, source, space, value, best, best_known)


FUNCTIONS = [
    _numerical("branin", "tune", plain(branin, [(-5.0, 10.0), (0.0, 15.0)]), 0.39788735772973816),
    _numerical("ackley5", "tune", moved(ackley, -32.768, 32.768, 5), 0.0, SURJANOVIC + "; shifted"),
    _numerical("levy8", "tune", moved(levy, -10.0, 10.0, 8, 1.0), 0.0, SURJANOVIC + "; shifted"),
    _numerical("michalewicz10", "tune", plain(michalewicz, [(0.0, math.pi)] * 10), -9.66015171564, best_known=True),
    _numerical("rastrigin4", "tune", moved(rastrigin, -5.12, 5.12, 4), 0.0, SURJANOVIC + "; shifted"),
    _numerical("hartmann6", "held-out", plain(hartmann6, [(0.0, 1.0)] * 6), HARTMANN_BEST),
    _numerical("rosenbrock5", "held-out", plain(rosenbrock, [(-5.0, 10.0)] * 5), 0.0),
    _numerical("griewank6", "held-out", moved(griewank, -600.0, 600.0, 6), 0.0, SURJANOVIC + "; shifted"),
    _numerical(
        "styblinski-tang6", "held-out", plain(styblinski_tang, [(-5.0, 5.0)] * 6), -39.16616570377142 * 6
    ),
    _numerical("shekel10", "held-out", plain(shekel, [(0.0, 10.0)] * 4), -10.53644315348353),
]
