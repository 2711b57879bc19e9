import time

RUN = "runs/" + time.strftime("%H%M%S")
