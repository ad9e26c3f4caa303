"""The compiling happens in a spawned process alone."""

import multiprocessing

import torch

from worker import work

if __name__ == "__main__":
    context = multiprocessing.get_context("spawn")
    answers = context.Queue()
    process = context.Process(target=work, args=(3, answers))
    process.start()
    print("worker said", answers.get(timeout=60), torch.get_default_dtype())
    process.join()
