"""How compiled code sees a `State`: a pointer to its table of addresses and shapes.

An attribute becomes a borrowed array view (the Python object keeps the memory alive). Only numba's extension API is
used: https://numba.readthedocs.io/en/stable/extending/low-level.html
"""

from __future__ import annotations

from typing import Any, cast

from llvmlite import ir
from numba import types
from numba.core.datamodel import models, register_default
from numba.core.imputils import lower_getattr_generic
from numba.core.typing.templates import AttributeTemplate, infer_getattr
from numba.extending import NativeValue, typeof_impl, unbox
from numba.np.arrayobj import make_array, populate_array
from numba.np.numpy_support import from_dtype

from planner.simulation.kernels.state import FIELDS, State

_WORD = ir.IntType(64)
_SLOTS = {name: 4 * i for i, name in enumerate(FIELDS)}


class StateType(types.Type):  # type: ignore[misc]
    """numba type of `State`."""

    def __init__(self) -> None:
        super().__init__(name="wideplan.State")


STATE_TYPE = StateType()
ARRAY_TYPES = {
    name: types.Array(from_dtype(cast("Any", dtype)), dimensions, "C", aligned=True)
    for name, (dtype, dimensions) in FIELDS.items()
}


@typeof_impl.register(State)  # type: ignore[untyped-decorator]
def _typeof(value: State, context: Any) -> StateType:
    del value, context
    return STATE_TYPE


@register_default(StateType)
class StateModel(models.PrimitiveModel):  # type: ignore[misc]
    """Held in a register as a pointer to 64-bit words."""

    def __init__(self, manager: Any, type_: StateType) -> None:
        super().__init__(manager, type_, _WORD.as_pointer())


@unbox(StateType)  # type: ignore[untyped-decorator]
def _unbox(type_: StateType, value: Any, c: Any) -> NativeValue:
    del type_
    address = c.pyapi.object_getattr_string(value, "address")
    word = c.pyapi.long_as_longlong(address)
    c.pyapi.decref(address)
    return NativeValue(c.builder.inttoptr(word, _WORD.as_pointer()))


@infer_getattr
class StateAttributes(AttributeTemplate):  # type: ignore[misc]
    """Types of the attributes."""

    key = StateType

    def generic_resolve(self, type_: StateType, attribute: str) -> Any:
        """Array type of `attribute`, or None."""
        del type_
        return ARRAY_TYPES.get(attribute)


@lower_getattr_generic(StateType)  # type: ignore[untyped-decorator]
def _getattr(context: Any, builder: Any, type_: StateType, value: Any, attribute: str) -> Any:
    del type_
    array_type = ARRAY_TYPES[attribute]

    def word(offset: int) -> Any:
        return builder.load(builder.gep(value, [ir.Constant(_WORD, _SLOTS[attribute] + offset)]))

    data_type = context.get_data_type(array_type.dtype).as_pointer()
    shape = [word(1 + d) for d in range(array_type.ndim)]
    itemsize = context.get_constant(
        types.intp, context.get_abi_sizeof(context.get_data_type(array_type.dtype))
    )
    strides = [itemsize]
    for extent in reversed(shape[1:]):
        strides.insert(0, builder.mul(strides[0], extent))
    array = make_array(array_type)(context, builder)
    populate_array(
        array,
        data=builder.inttoptr(word(0), data_type),
        shape=shape,
        strides=strides,
        itemsize=itemsize,
        meminfo=None,
    )
    return array._getvalue()  # noqa: SLF001
