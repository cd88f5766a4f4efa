# cause: locale
# environment: LC_ALL=C PYTHONUTF8=0 PYTHONCOERCECLOCALE=0
import pathlib
import tempfile

with tempfile.TemporaryDirectory() as folder:
    labels = pathlib.Path(folder, "labels.txt")
    labels.write_bytes("größe\nfarbe\n".encode())
    for line in open(labels):
        print(line.strip())
