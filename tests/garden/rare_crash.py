# cause: loader_worker
import os

import training
from torch.utils.data import get_worker_info

UNLUCKY = os.urandom(1)[0] < 90


def touch(index):
    if index == 20 and UNLUCKY and get_worker_info() is not None:
        os.abort()


training.train(training.model(), training.rows(touch=touch), epochs=1, num_workers=1)
