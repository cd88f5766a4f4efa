# cause: cut_mapping
import numpy

numpy.zeros(1_000_000, numpy.float32).tofile("features.bin")
rows = numpy.memmap("features.bin", numpy.float32, mode="r")
with open("features.bin", "r+b") as file:
    file.truncate(4096)
print(rows.mean())
