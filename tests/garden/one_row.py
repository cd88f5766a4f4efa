# cause: bad_row
# rows: 41
import ctypes

import training


def decode(index):
    if index == 41:
        ctypes.string_at(8)


training.train(training.model(), training.rows(touch=decode))
