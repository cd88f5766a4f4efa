# cause: usage
# arguments: --epochs 3
import argparse

parser = argparse.ArgumentParser()
parser.add_argument("--data", required=True)
parser.add_argument("--epochs", type=int)
print(parser.parse_args())
