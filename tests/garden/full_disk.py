# cause: disk_full
# disk: 1m
import os
import pickle

with open(os.path.join(os.environ["DISK"], "checkpoint.pkl"), "wb") as file:
    pickle.dump(b"x" * 4_000_000, file)
