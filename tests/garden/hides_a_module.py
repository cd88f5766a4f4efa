# cause: shadowed_module
# says: statistics
import pathlib
import sys

here = pathlib.Path(__file__).with_suffix("")
sys.path.insert(0, str(here))

import random

import statistics

print(statistics.mean([random.random() for _ in range(9)]))
