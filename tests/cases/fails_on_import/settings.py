import os

WIDTH = int(os.environ["SERVE_WIDTH_THAT_NOBODY_SET"])
