"""A property of an object that is made inside is set and read without its functions."""

import torch


class Celsius:
    def __init__(self, degrees):
        self._degrees = degrees

    @property
    def kelvin(self):
        return self._degrees + 273

    @kelvin.setter
    def kelvin(self, value):
        self._degrees = value - 273


def build():
    def program(x):
        day = Celsius(10)
        day.kelvin = 300
        return x + day._degrees, day.kelvin

    return program, (torch.zeros(2),)
