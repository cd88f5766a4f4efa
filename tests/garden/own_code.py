# cause: own_code
# says: own_code.py
settings = {"lr": 0.1}


def configure():
    return settings["learning_rate"]


configure()
