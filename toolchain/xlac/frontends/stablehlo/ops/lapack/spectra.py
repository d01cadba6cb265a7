"""LAPACK's functions of general square matrices that JAX calls on a CPU: Schur's form, eigenvalues
and eigenvectors.
"""

from __future__ import annotations

from xlac.frontends.stablehlo.custom import CUSTOM_CALLS
from xlac.frontends.stablehlo.ops.lapack.operations import letter
from xlac.frontends.stablehlo.site import Built, OperationSite
from xlac.frontends.stablehlo.text.syntax import TensorType
from xlac.frontends.stablehlo.values import TypedTensor, Value
from xlac.ir.graph import Node
from xlac.ops import build
from xlac.ops.complex.linalg import eigenvectors
from xlac.ops.complex.linalg.numbers import Numbers
from xlac.ops.complex.linalg.schur import eigenvalues
from xlac.ops.complex.linalg.schur import schur as schur_form


def gees(site: OperationSite) -> Built:
    """T and Z, which is the operand where no vectors are wanted; eigenvalues, of real matrices
    their real and imaginary parts; how many were selected for sorting, which is 0; and 1 where the
    form was not found.
    """
    site.takes(1)
    a = site.tensor(0)
    real = len(a.parts) == 1
    *whole, count, report = site.results(6 if real else 5)
    wanted = letter(site, "mode", "NV") == "V"
    if letter(site, "sort", "NS") != "N":
        site.fail("eigenvalues cannot be sorted", "leave sort_eig_vals out of jax.lax.linalg.schur")
    t, z, found = schur_form(a.parts)
    values = eigenvalues(t)
    listed = [(part,) for part in values] if real else [values]
    return [
        *(_value(t, x) for t, x in zip(whole, [t, z if wanted else a.parts, *listed], strict=True)),
        TypedTensor(count.element, (build.full(0, found.shape, count.element.dtype),)),
        _report(found, report),
    ]


def geev(site: OperationSite) -> Built:
    """Eigenvalues, of real matrices their real and imaginary parts; the left and the right
    eigenvectors, which are complex; and 1 where they were not found.
    """
    site.takes(1)
    a = site.tensor(0)
    real = len(a.parts) == 1
    *whole, report = site.results(5 if real else 4)
    for option in ("compute_left", "compute_right"):
        letter(site, option, "NV")
    values, left, right, found = eigenvectors.eig(a.parts)
    listed = [(part,) for part in values] if real else [values]
    return [
        *(_value(t, x) for t, x in zip(whole, [*listed, left, right], strict=True)),
        _report(found, report),
    ]


def _value(stated: TensorType, parts: Numbers) -> Value:
    """A result of the element type that the text states."""
    return TypedTensor(stated.element, parts)


def _report(found: Node, report: TensorType) -> Value:
    """0, or 1 where nothing was found."""
    wrong = build.cast(build.apply1("not", found), report.element.dtype)
    return TypedTensor(report.element, (wrong,))


for _function in (gees, geev):
    for _precision in "sdcz":
        CUSTOM_CALLS[f"lapack_{_precision}{_function.__name__}_ffi"] = _function
