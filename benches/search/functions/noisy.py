"""Functions whose observed values carry Gaussian noise. A sampler is judged by the noiseless value of its incumbent,
which is the point of the best *observed* value: so it pays to look twice where it is good, not to be lucky once."""
from .base import Function
from .conditional import JENATTON_SPACE, TREE, jenatton
from .mixed import CAMEL_BEST, COCABO, cocabo_space, func2c, func3c
from .numerical import HARTMANN_BEST, SURJANOVIC, ackley, branin, hartmann6, levy, moved, plain


def _noisy(name, split, space, value, best, noise, source=SURJANOVIC):
    return Function(name, "noisy", split, source, space, value, best, noise=noise)


ACKLEY = moved(ackley, -5.0, 5.0, 4)
LEVY = moved(levy, -10.0, 10.0, 5, 1.0)

FUNCTIONS = [
    _noisy("noisy-branin", "tune", *plain(branin, [(-5.0, 10.0), (0.0, 15.0)]), 0.39788735772973816, 2.0),
    _noisy("noisy-levy5", "tune", *LEVY, 0.0, 1.0),
    _noisy("noisy-func2c", "tune", cocabo_space(3, 5), func2c, 2 * CAMEL_BEST, 0.05, COCABO),
    _noisy("noisy-hartmann6", "held-out", *plain(hartmann6, [(0.0, 1.0)] * 6), HARTMANN_BEST, 0.2),
    _noisy("noisy-ackley4", "held-out", *ACKLEY, 0.0, 0.5),
    _noisy("noisy-func3c", "held-out", cocabo_space(3, 5, 4), func3c, 7 * CAMEL_BEST, 0.1, COCABO),
    _noisy("noisy-jenatton", "held-out", JENATTON_SPACE, jenatton, 0.1, 0.1, TREE),
]
