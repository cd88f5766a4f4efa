# cause: deadlock
# says: deadlock.py
import threading

lock = threading.Lock()


def checkpoint():
    with lock:
        save()


def save():
    with lock:
        print("saved")


checkpoint()
