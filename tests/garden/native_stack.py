# cause: recursion
import sys

import torch

sys.setrecursionlimit(10**8)


class Node:
    def __init__(self, below):
        self.below = below

    def __eq__(self, other):
        return self.below == other.below


one = two = None
for _ in range(200_000):
    one, two = Node(one), Node(two)
print(one == two)
