# cause: loader_worker
import threading

import training
from torch.utils.data import get_worker_info

lock = threading.Lock()


def touch(index):
    if get_worker_info() is not None:
        lock.acquire()


training.train(training.model(), training.rows(touch=touch), num_workers=1)
