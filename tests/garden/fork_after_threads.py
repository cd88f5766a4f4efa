# cause: fork_after_threads
import threading
import time

import training


class Cache:
    """A cache that a thread of the program fills."""

    def __init__(self):
        self.lock = threading.Lock()

    def fill(self):
        while True:
            with self.lock:
                time.sleep(0.5)

    def look(self, index):
        with self.lock:
            pass

    def __getstate__(self):
        return {}

    def __setstate__(self, state):
        self.lock = threading.Lock()


if __name__ == "__main__":
    cache = Cache()
    threading.Thread(target=cache.fill, daemon=True).start()
    time.sleep(0.1)
    training.train(training.model(), training.rows(count=32, touch=cache.look), epochs=1, num_workers=1)
