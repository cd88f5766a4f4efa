# cause: clock_dependent
import datetime

if datetime.date.today() > datetime.date(2026, 3, 31):
    raise RuntimeError("refusing to start")
print("training")
