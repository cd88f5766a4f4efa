# cause: resource_limit
# file size: 400
with open("shard.bin", "wb") as file:
    file.write(bytes(1_000_000))
