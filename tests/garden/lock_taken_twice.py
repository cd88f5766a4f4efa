# cause: crossed_locks
# says: lock_taken_twice.py
import threading

lock = threading.Lock()


def checkpoint():
    with lock:
        save()


def save():
    with lock:
        print("saved")


checkpoint()
