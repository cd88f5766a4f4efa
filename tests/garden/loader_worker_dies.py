# cause: bad_row
# rows: 41
import os
import signal

import training


def decode(index):
    if index == 41:
        os.kill(os.getpid(), signal.SIGILL)


training.train(training.model(), training.rows(touch=decode), num_workers=2)
