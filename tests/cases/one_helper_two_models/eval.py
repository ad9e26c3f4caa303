"""A student and a teacher, compiled apart, that share one temperature helper."""

import torch
from torch import nn

from temper import soften


class Student(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(6, 4)

    def forward(self, x):
        return soften(self.fc(x), 2.0)


class Teacher(nn.Module):
    def __init__(self):
        super().__init__()
        self.deep = nn.Sequential(nn.Linear(6, 12), nn.GELU(), nn.Linear(12, 4))

    def forward(self, x):
        scores = self.deep(x)
        return soften(scores, 2.0).detach()


def main():
    student = torch.compile(Student(), backend="eager")
    teacher = torch.compile(Teacher(), backend="eager")
    x = torch.randn(3, 6)
    loss = nn.functional.kl_div(student(x), teacher(x), log_target=True, reduction="batchmean")
    print(float(loss))


if __name__ == "__main__":
    main()
