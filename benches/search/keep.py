#!/usr/bin/env python3
"""Keeps the results of the peers' runs beside this program (kept/), for machines that have not run them.

Takes the options of run.py: --samplers says whose, all peers if it is left out. Results of tune are not kept: a binary
is run anew.
"""
import results
import samplers
from options import arguments


def main():
    options = arguments(__doc__.splitlines()[0])
    for name in options.samplers:
        if name in samplers.PEERS:
            key = samplers.key_of(name)
            print(f"{key}: {results.keep(key)} runs")


if __name__ == "__main__":
    main()
