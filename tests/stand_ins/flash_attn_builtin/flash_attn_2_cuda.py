"""Stand-in for the extension module of flash-attn before 2.7: `fwd` is a C function bound to a PyCapsule, as pybind11
makes them, and no operator of torch. It gives its first argument back; nothing of attention is in it.
"""

import ctypes


class _MethodDefinition(ctypes.Structure):
    _fields_ = (
        ("name", ctypes.c_char_p),
        ("function", ctypes.c_void_p),
        ("flags", ctypes.c_int),
        ("doc", ctypes.c_char_p),
    )


_TAKES_A_TUPLE = 0x0001


@ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.py_object, ctypes.py_object)
def _first(capsule: object, arguments: tuple[object, ...]) -> object:
    return arguments[0]


_api = ctypes.pythonapi
_api.PyCapsule_New.restype = ctypes.py_object
_api.PyCapsule_New.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
_api.PyCFunction_NewEx.restype = ctypes.py_object
_api.PyCFunction_NewEx.argtypes = [ctypes.c_void_p, ctypes.py_object, ctypes.py_object]

# Both must outlive the function that points at them.
_definition = _MethodDefinition(b"fwd", ctypes.cast(_first, ctypes.c_void_p).value, _TAKES_A_TUPLE, None)
_capsule = _api.PyCapsule_New(1, None, None)

fwd = _api.PyCFunction_NewEx(ctypes.addressof(_definition), _capsule, __name__)
