"""Folds a list of vectors like a tree; the fold calls itself and reports each leaf."""

import torch


def fold(vectors, depth):
    if len(vectors) == 1:
        leaf = vectors[0] * 2
        print("leaf at depth", depth)
        return leaf.relu()
    middle = len(vectors) // 2
    left = fold(vectors[:middle], depth + 1)
    right = fold(vectors[middle:], depth + 1)
    return left + right


if __name__ == "__main__":
    compiled = torch.compile(fold, backend="eager")
    print(compiled([torch.ones(3), torch.zeros(3)], 0))
