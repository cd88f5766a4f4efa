# cause: loader_worker
import ctypes

import training
from torch.utils.data import get_worker_info


def touch(index):
    if index == 20 and get_worker_info() is not None:
        ctypes.string_at(8)


training.train(training.model(), training.rows(touch=touch), num_workers=2)
