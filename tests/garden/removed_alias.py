# cause: library_mismatch
# says: removed_alias.py
import numpy

print(numpy.array([1, 0, 1]).astype(numpy.int))
