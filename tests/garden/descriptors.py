# cause: descriptors
# files: 64
kept = [open("/dev/null") for _ in range(200)]
print(len(kept))
