# cause: options
# arguments: --rate 0.1 --fused --decay 0.2 --steps 5
# says: --fused together with --decay
import argparse

parser = argparse.ArgumentParser()
parser.add_argument("--rate", type=float, default=0.1)
parser.add_argument("--decay", type=float, default=0.0)
parser.add_argument("--steps", type=int, default=3)
parser.add_argument("--fused", action="store_true")
asked = parser.parse_args()

weight = 1.0
for step in range(asked.steps):
    gradient = 2 * weight
    if asked.fused and asked.decay > 0.1:
        gradient = gradient / (asked.decay - asked.decay)
    weight -= asked.rate * gradient
    print(f"step {step}: {weight:.4f}", flush=True)
