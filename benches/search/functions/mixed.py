"""Functions of real, integer and categorical parameters, all always active: synthetic ones and designs of machines.

A design that breaks constraints costs more, in proportion to the sum of its relative violations.
"""
import math

from .base import Function, choice, real, stream, whole
from .numerical import ackley

COCABO = "Ru, Alvi, Nguyen, Osborne and Roberts 2020 (CoCaBO)"
PENALTY = 20.0


def rosenbrock2(x, y):
    return (100 * (y - x * x) ** 2 + (x - 1) ** 2) / 300


def camel(x, y):
    return ((4 - 2.1 * x * x + x**4 / 3) * x * x + x * y + (4 * y * y - 4) * y * y) / 10


def beale(x, y):
    return ((1.5 - x + x * y) ** 2 + (2.25 - x + x * y * y) ** 2 + (2.625 - x + x * y**3) ** 2) / 50


CAMEL_BEST = -1.031628453489877 / 10


def func2c(params):
    x, y = 2 * params["x0"], 2 * params["x1"]
    parts = (rosenbrock2, camel, beale, beale, beale)
    return parts[int(params["h1"][1:])](x, y) + parts[int(params["h2"][1:])](x, y)


def func3c(params):
    x, y = 2 * params["x0"], 2 * params["x1"]
    third = int(params["h3"][1:])
    if third == 0:
        added = 5 * camel(x, y)
    elif third == 1:
        added = 2 * rosenbrock2(x, y)
    else:
        added = third * beale(x, y)
    return func2c(params) + added


def cocabo_space(*sizes):
    """Categories h1, h2, ... of the given sizes, whose names say nothing, and two real parameters."""
    categories = [choice(f"h{i + 1}", [f"c{k}" for k in range(size)]) for i, size in enumerate(sizes)]
    return categories + [real("x0", -1.0, 1.0), real("x1", -1.0, 1.0)]


ACKLEY_LEVELS = 17


def ackley_categories(seed):
    """For each of the categories, which level each choice means: an order that says nothing."""
    orders = []
    for dimension in range(5):
        order = list(range(ACKLEY_LEVELS))
        stream("ackley5c", seed, dimension).shuffle(order)
        orders.append(order)
    return orders


ACKLEY_ORDERS = ackley_categories(1)


def ackley5c(params):
    """Five categories of 17 levels from -1 to 1 and one real parameter; 0 where all are at 0 (x0 is shifted)."""
    levels = [ACKLEY_ORDERS[i][int(params[f"h{i}"][1:])] for i in range(5)]
    return ackley([2 * level / (ACKLEY_LEVELS - 1) - 1 for level in levels] + [params["x0"] - 0.3])


def penalised(cost, scale, violations):
    """The cost of a design: `violations` are relative, positive where a constraint is broken, each counted up to 50;
    `scale` is about the cost of a good design."""
    return cost + scale * PENALTY * sum(min(max(0.0, violation), 50.0) for violation in violations)


def pressure_vessel(params):
    shell, head = 0.0625 * params["shell"], 0.0625 * params["head"]
    radius, length = params["radius"], params["length"]
    cost = (
        0.6224 * shell * radius * length
        + 1.7781 * head * radius**2
        + 3.1661 * shell**2 * length
        + 19.84 * shell**2 * radius
    )
    volume = math.pi * radius**2 * length + 4 / 3 * math.pi * radius**3
    violations = (0.0193 * radius / shell - 1, 0.00954 * radius / head - 1, 1 - volume / 1296000)
    return penalised(cost, 6000.0, violations)


def speed_reducer(params):
    x1, x2, x3 = params["width"], params["module"], params["teeth"]
    x4, x5, x6, x7 = params["shaft1"], params["shaft2"], params["diameter1"], params["diameter2"]
    cost = (
        0.7854 * x1 * x2**2 * (3.3333 * x3**2 + 14.9334 * x3 - 43.0934)
        - 1.508 * x1 * (x6**2 + x7**2)
        + 7.4777 * (x6**3 + x7**3)
        + 0.7854 * (x4 * x6**2 + x5 * x7**2)
    )
    violations = (
        27 / (x1 * x2**2 * x3) - 1,
        397.5 / (x1 * x2**2 * x3**2) - 1,
        1.93 * x4**3 / (x2 * x3 * x6**4) - 1,
        1.93 * x5**3 / (x2 * x3 * x7**4) - 1,
        math.sqrt((745 * x4 / (x2 * x3)) ** 2 + 16.9e6) / (110 * x6**3) - 1,
        math.sqrt((745 * x5 / (x2 * x3)) ** 2 + 157.5e6) / (85 * x7**3) - 1,
        x2 * x3 / 40 - 1,
        5 * x2 / x1 - 1,
        x1 / (12 * x2) - 1,
        (1.5 * x6 + 1.9) / x4 - 1,
        (1.1 * x7 + 1.9) / x5 - 1,
    )
    return penalised(cost, 3000.0, violations)


WIRES = (
    0.009, 0.0095, 0.0104, 0.0118, 0.0128, 0.0132, 0.014, 0.015, 0.0162, 0.0173, 0.018, 0.02, 0.023, 0.025,
    0.028, 0.032, 0.035, 0.041, 0.047, 0.054, 0.063, 0.072, 0.08, 0.092, 0.105, 0.12, 0.135, 0.148, 0.162, 0.177,
    0.192, 0.207, 0.225, 0.244, 0.263, 0.283, 0.307, 0.331, 0.362, 0.394, 0.4375, 0.5,
)  # fmt: skip


def coil_spring(params):
    """Sandgren's spring: number of coils, mean diameter, and the wire from a list of sizes that are for sale."""
    coils, diameter, wire = params["coils"], params["diameter"], WIRES[params["wire"]]
    cost = math.pi**2 * diameter * wire**2 * (coils + 2) / 4
    index = max(diameter / wire, 1.01)
    factor = (4 * index - 1) / (4 * index - 4) + 0.615 / index
    stiffness = 11.5e6 * wire**4 / (8 * coils * diameter**3)
    solid = 1.05 * (coils + 2) * wire
    free = 1000 / stiffness + solid
    violations = (
        8 * factor * 1000 * diameter / (math.pi * wire**3) / 189000 - 1,
        free / 14 - 1,
        0.2 / wire - 1,
        (diameter + wire) / 3 - 1,
        3 / (diameter / wire) - 1,
        300 / stiffness / 6 - 1,
        1.25 / (700 / stiffness) - 1,
    )
    return penalised(cost, 3.0, violations)


def welded_beam(params):
    """The beam with its two thicknesses in sixteenths of an inch, as bars are sold; lengths on a log scale."""
    h, b = params["weld"] / 16, params["bar"] / 16
    length, t = params["length"], params["height"]
    load, span, young, shear = 6000.0, 14.0, 30e6, 12e6
    first = load / (math.sqrt(2) * h * length)
    moment = load * (span + length / 2)
    radius = math.sqrt(length**2 / 4 + ((h + t) / 2) ** 2)
    polar = 2 * math.sqrt(2) * h * length * (length**2 / 12 + ((h + t) / 2) ** 2)
    second = moment * radius / polar
    stress = math.sqrt(first**2 + first * second * length / radius + second**2)
    buckling = 4.013 * young * t * b**3 / (6 * span**2) * (1 - t / (2 * span) * math.sqrt(young / (4 * shear)))
    cost = 1.10471 * h**2 * length + 0.04811 * t * b * (14 + length)
    violations = (
        stress / 13600 - 1,
        6 * load * span / (b * t**2) / 30000 - 1,
        h / b - 1,
        0.125 / h - 1,
        4 * load * span**3 / (young * t**3 * b) / 0.25 - 1,
        load / max(buckling, 1.0) - 1 if buckling < load else 0.0,
    )
    return penalised(cost, 2.0, violations)


FUNCTIONS = [
    Function("func2c", "mixed", "tune", COCABO, cocabo_space(3, 5), func2c, 2 * CAMEL_BEST),
    Function(
        "pressure-vessel", "mixed", "tune", "Sandgren 1990; penalised",
        [whole("shell", 1, 99), whole("head", 1, 99), real("radius", 10.0, 200.0), real("length", 10.0, 240.0)],
        pressure_vessel, 6059.714335, best_known=True,
    ),
    Function(
        "speed-reducer", "mixed", "tune", "Golinski 1970; penalised",
        [
            real("width", 2.6, 3.6), real("module", 0.7, 0.8), whole("teeth", 17, 28), real("shaft1", 7.3, 8.3),
            real("shaft2", 7.3, 8.3), real("diameter1", 2.9, 3.9), real("diameter2", 5.0, 5.5),
        ],
        speed_reducer, 2994.4710661, best_known=True,
    ),
    Function("func3c", "mixed", "held-out", COCABO, cocabo_space(3, 5, 4), func3c, 7 * CAMEL_BEST),
    Function(
        "ackley5c", "mixed", "held-out", COCABO + "; order of the levels shuffled",
        [choice(f"h{i}", [f"c{k}" for k in range(ACKLEY_LEVELS)]) for i in range(5)] + [real("x0", -1.0, 1.0)],
        ackley5c, 0.0,
    ),
    Function(
        "coil-spring", "mixed", "held-out", "Sandgren 1990; penalised",
        [whole("coils", 1, 70), real("diameter", 0.3, 3.0, log=True), whole("wire", 0, len(WIRES) - 1)],
        coil_spring, 2.658559, best_known=True,
    ),
    Function(
        "welded-beam", "mixed", "held-out", "Ragsdell and Phillips 1976; thicknesses in sixteenths, penalised",
        [
            whole("weld", 2, 32, log=True), whole("bar", 2, 32, log=True),
            real("length", 0.1, 10.0, log=True), real("height", 0.1, 10.0, log=True),
        ],
        welded_beam, 1.8812387453, best_known=True,
    ),
]  # fmt: skip
