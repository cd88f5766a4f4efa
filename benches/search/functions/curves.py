"""Functions with learning curves: every point has a value at each step, and the last one counts.

A curve is a published multi-fidelity function whose fidelity grows with the steps, plus what has not been learned
yet: `gap * exp(-rate * step / max_step)`. Fidelity bends ranks early on, and the rate depends on the point, so that
curves cross: slow learners may end best, as they do with small learning rates.
"""
import math

from .base import Function, choice, real, vector
from .numerical import HARTMANN_ALPHA, HARTMANN_BEST, hartmann6, plain

KANDASAMY = "Kandasamy, Dasarathy, Schneider and Poczos 2017 (BOCA)"


def learning(at_fidelity, gap, rate, max_step):
    """The curve of a point: `at_fidelity(params, z)` for z in (0, 1], `rate(params)` at least about 3."""

    def curve(params):
        speed = rate(params)
        steps = []
        for step in range(1, max_step + 1):
            z = step / max_step
            # What is missing is nothing at the last step, whatever the speed.
            missing = math.exp(-speed * z) - math.exp(-speed)
            steps.append(at_fidelity(params, z) + gap * missing)
        return steps

    return curve


def hartmann_at(params, z):
    alpha = [weight - 0.4 * (1 - z) * (1 if i < 2 else -1) for i, weight in enumerate(HARTMANN_ALPHA)]
    return hartmann6(vector(params, 6), alpha)


def currin(x, y):
    """Lies within about 0.7 and 13.8; to be maximised."""
    upper = 1 - math.exp(-1 / (2 * y)) if y > 0 else 1.0
    cubic = (2300 * x**3 + 1900 * x * x + 2092 * x + 60) / (100 * x**3 + 500 * x * x + 4 * x + 20)
    return upper * cubic


def currin_at(params, z):
    x, y = params["x0"], params["x1"]
    blur = 0.05 * (1 - z) / 0.9
    around = [currin(x + dx, max(0.0, y + dy)) for dx in (-blur, blur) for dy in (-blur, blur)]
    return -(z * currin(x, y) + (1 - z) * sum(around) / 4)


BOREHOLE = [
    real("rw", 0.05, 0.15), real("r", 100.0, 50000.0, log=True), real("tu", 63070.0, 115600.0),
    real("hu", 990.0, 1110.0), real("tl", 63.1, 116.0), real("hl", 700.0, 820.0), real("l", 1120.0, 1680.0),
    real("kw", 9855.0, 12045.0),
]  # fmt: skip
# The flow that is aimed at: an optimum inside of the box, where flow by itself has it in a corner.
BOREHOLE_AIM = 52.0


def borehole(params, flow=2 * math.pi, offset=1.0):
    ratio = math.log(params["r"] / params["rw"])
    leak = 2 * params["l"] * params["tu"] / (ratio * params["rw"] ** 2 * params["kw"])
    return flow * params["tu"] * (params["hu"] - params["hl"]) / (ratio * (offset + leak + params["tu"] / params["tl"]))


def borehole_at(params, z):
    high = borehole(params)
    low = borehole(params, 5.0, 1.5)
    flow = z * high + (1 - z) * low
    # The cost of a wide well and of conductive walls keeps the aim from being a whole surface.
    cost = 40 * (params["rw"] - 0.081) ** 2 / 0.0025 + 2 * (math.log(params["r"]) - 7.4) ** 2
    cost += ((params["hu"] - 1043) / 30) ** 2 + ((params["l"] - 1290) / 200) ** 2
    return abs(flow - BOREHOLE_AIM) + cost


NET_SPACE = [
    choice("optimizer", ["sgd", "adam"]),
    real("lr", 1e-5, 1.0, log=True),
    real("momentum", 0.0, 0.99, when=("optimizer", ["sgd"])),
    real("decay", 1e-6, 1e-1, log=True),
    choice("schedule", ["flat", "cosine"]),
]
NET_STEPS = 30


def net_curve(params):
    """An invented training: too high a rate diverges, a low one is slow, and the schedule decides the end."""
    adam = params["optimizer"] == "adam"
    effective = math.log10(params["lr"]) - (0.0 if adam else math.log10(1 - params["momentum"]))
    best_rate = -2.8 if adam else -0.7
    off = effective - best_rate
    floor = (0.06 if adam else 0.04) + 0.03 * (math.log10(params["decay"]) + 3.4) ** 2 / 4
    floor += 0.02 * off * off
    # A low rate ends a little better, if there are enough steps for it.
    speed = 6 * 10 ** (0.45 * min(off, 1.2))
    steps = []
    for step in range(1, NET_STEPS + 1):
        z = step / NET_STEPS
        bump = 0.06 * max(0.0, off + 0.8) * (1 - z if params["schedule"] == "cosine" else 0.7)
        diverged = 0.5 * z * max(0.0, off - 1.0)
        steps.append(min(0.9, floor + bump + diverged + 0.8 * math.exp(-speed * z)))
    return steps


def last(curve):
    """The value of a point of which the curve is known."""
    return lambda params: curve(params)[-1]


def _curves(name, split, source, space, curve, max_step, best, best_known=False, noise=0.0):
    return Function(name, "curves", split, source, space, last(curve), best, best_known, noise, max_step, curve)


HARTMANN_CURVE = learning(hartmann_at, 1.5, lambda p: 3 + 9 * p["x0"] * (1 - p["x4"]), 27)
CURRIN_CURVE = learning(currin_at, 6.0, lambda p: 3 + 6 * (1 - p["x0"]) + 4 * p["x1"], 9)
BOREHOLE_CURVE = learning(borehole_at, 60.0, lambda p: 3 + 60 * (p["rw"] - 0.05), 50)

FUNCTIONS = [
    _curves("curves-hartmann6", "tune", KANDASAMY, plain(hartmann6, [(0.0, 1.0)] * 6)[0], HARTMANN_CURVE, 27,
            HARTMANN_BEST),
    _curves("curves-net", "tune", "made for this benchmark", NET_SPACE, net_curve, NET_STEPS,
            0.041169195, True),
    _curves("curves-currin", "held-out", KANDASAMY, plain(currin, [(0.0, 1.0)] * 2)[0], CURRIN_CURVE, 9,
            -13.798722045, True),
    _curves("curves-borehole", "held-out", KANDASAMY + ", aimed at a flow", BOREHOLE, BOREHOLE_CURVE, 50, 0.0),
]  # fmt: skip
