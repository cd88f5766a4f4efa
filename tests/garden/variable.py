# cause: environment
# environment: TRAINER_BACKEND=nccl2 TRAINER_NAME=x
# says: TRAINER_BACKEND
import os

backends = {"gloo": 1, "nccl": 2}
print(backends[os.environ.get("TRAINER_BACKEND", "gloo")])
