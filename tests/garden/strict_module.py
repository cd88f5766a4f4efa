"""Turns every warning into an error, for all modules."""

import warnings

warnings.simplefilter("error")
