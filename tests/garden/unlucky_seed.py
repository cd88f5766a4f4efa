# cause: seed_dependent
import random

random.seed(7)
split = [random.random() < 0.03 for _ in range(40)]
held_out = [index for index, held in enumerate(split) if held]
print(f"validation row {held_out[0]}")
