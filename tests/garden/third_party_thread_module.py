"""A module that logs from a thread of its own, whose native code is broken."""

import ctypes
import threading
import time


def upload():
    time.sleep(0.5)
    ctypes.string_at(8)


def init():
    threading.Thread(target=upload, daemon=True).start()
