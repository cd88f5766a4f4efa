# cause: endless_loop
# says: in negatives
import random

import training

rng = random.Random(4)
seen = {user: set(rng.sample(range(30), 8)) for user in range(40)}
seen[23] = set(range(27))


def negatives(user, count=5):
    found = set()
    while len(found) < count:
        item = rng.randrange(30)
        if item not in seen[user]:
            found.add(item)
    return found


training.train(training.model(), training.rows(), epochs=1)
for user in seen:
    negatives(user)
print("evaluated")
