# cause: clock_dependent
# today
import datetime
import sys

rates = {sys.argv[1]: None}
today = datetime.datetime.now().strftime("%Y-%m-%d")
print(f"rate {rates.get(today, 0.1) * 2}")
