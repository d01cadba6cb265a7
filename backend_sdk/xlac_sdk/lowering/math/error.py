"""The error function. The coefficients are minimax polynomials, computed by the Remez algorithm in
50 digits and rounded.
"""

from __future__ import annotations

from xlac_sdk.dtypes import DType
from xlac_sdk.lowering.math.comparison import magnitude, sign_bit, with_sign
from xlac_sdk.lowering.math.exponential import bounded_exp
from xlac_sdk.lowering.math.value import Value
from xlac_sdk.lowering.math.writer import Writer

# erf(x) / x - 1 in x^2, for |x| <= 1: errors 2^-30, 2^-62
NEAR = {
    DType.F32: (
        0.12837916612625122, -0.3761262595653534, 0.1128358542919159, -0.026853810995817184,
        0.00518832728266716, -0.0008010190795175731, 7.85385345807299e-05,
    ),
    DType.F64: (
        0.1283791670955126, -0.3761263890318375, 0.11283791670954857, -0.026866170645072886,
        0.005223977624780783, -0.0008548326978737623, 0.0001205533103673954,
        -1.4925593503189049e-05, 1.6460972759696551e-06, -1.6350024633978445e-07,
        1.4657875996512927e-08, -1.1365651489875562e-09, 5.94523786839512e-11,
    ),
}  # fmt: skip
# -log(erfc(1 + v)) for v in [0, 3] (f32) and [0, 5] (f64), relative to erf: errors 2^-35, 2^-62
FAR = {
    DType.F32: (
        1.8496055603027344, 2.638967514038086, 0.8431070446968079, 0.041563551872968674,
        -0.010046587325632572, 0.0020120968110859394, -0.00028958829352632165,
        2.1697404008591548e-05,
    ),
    DType.F64: (
        1.8496055099332482, 2.6389675142347913, 0.8431072563584858, 0.0415610980465095,
        -0.01003382543411045, 0.001977903019946695, -0.00023732470575827202,
        -2.6270351929683933e-05, 2.7140940885782183e-05, -9.576714932156222e-06,
        2.017205350698092e-06, -1.003539002077627e-07, -1.2981695458733005e-07,
        7.064904327165242e-08, -2.302375680271635e-08, 5.502782492657628e-09,
        -9.945335260812046e-10, 1.332704798318799e-10, -1.2515173863322941e-11,
        7.34363320548227e-13, -2.0216729877743908e-14,
    ),
}  # fmt: skip
END = {DType.F32: 4.0, DType.F64: 6.0}  # erf rounds to 1 from here on


def erf(m: Writer, x: Value) -> Value:
    """x + x p(x^2) up to 1, then 1 - exp(-g(|x|)), where errors of g shrink with erfc: 1 ulp."""
    a = magnitude(x).at_most(END[x.dtype])
    z = a * a
    near = m.fma(m.polynomial(z, NEAR[x.dtype]), a, a)
    far = 1.0 - bounded_exp(m, -m.polynomial(a - 1.0, FAR[x.dtype]))
    return with_sign(m.select(a < 1.0, near, far), sign_bit(x))
