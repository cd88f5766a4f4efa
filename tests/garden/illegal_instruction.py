# cause: processor_instructions
import os
import signal

os.kill(os.getpid(), signal.SIGILL)
