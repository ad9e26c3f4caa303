from .model import Ranker, build

__all__ = ["Ranker", "build"]
