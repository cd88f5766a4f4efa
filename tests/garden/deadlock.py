# cause: deadlock
# says: deadlock.py
import threading

written = threading.Event()


def save(step):
    if step % 2 == 0:
        written.set()


def checkpoint(step):
    threading.Thread(target=save, args=(step,)).start()
    written.wait()
    print("saved", step)


checkpoint(7)
