"""Special functions of real numbers: error functions, gamma and its relatives, zeta, Bessel
functions.

The approximations are those of Cephes, of Giles (Approximating the erfinv function) and of Lanczos,
in f32 or f64.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from xlac.ir.graph import Node
from xlac.ir.op import Array, declare
from xlac.ops import build
from xlac.ops.scalar import convert
from xlac.ops.scalar.formula import Formula
from xlac_sdk.dtypes import DType
from xlac_sdk.lowering.math import normal


def polynomial(x: Node, coefficients: Sequence[float]) -> Node:
    """By Horner's rule, the highest power first."""
    value = build.like(coefficients[0], x)
    for coefficient in coefficients[1:]:
        value = build.add(build.mul(value, x), coefficient)
    return value


def chebyshev(x: Node, coefficients: Sequence[float]) -> Node:
    """A series of Chebyshev polynomials of x / 2, the highest first, by Clenshaw's rule; the last
    one counts half.
    """
    before, now, after = build.like(0.0, x), build.like(0.0, x), build.like(0.0, x)
    for coefficient in coefficients:
        before, after = now, before
        now = build.add(build.sub(build.mul(x, before), after), coefficient)
    return build.mul(build.sub(now, after), 0.5)


def single(x: Node) -> bool:
    """Whether x is computed in f32, which takes shorter polynomials than f64."""
    return x.type.dtype is DType.F32


def size(x: Node) -> Node:
    """The magnitude of x."""
    return build.apply1("abs", x)


ERFC_SINGLE = (
    (2.326819970068386e-2, -1.387039388740657e-1, 3.687424674597105e-1, -5.824733027278666e-1,
     6.210004621745983e-1, -4.944515323274145e-1, 3.404879937665872e-1, -2.741127028184656e-1,
     5.638259427386472e-1),
    (-1.047766399936249e1, 1.297719955372516e1, -7.495518717768503, 2.921019019210786,
     -1.015265279202700, 4.218463358204948e-1, -2.820767439740514e-1, 5.641895067754075e-1),
)  # fmt: skip
"""In 1/x², of exp(x²) x erfc(x), below 2 and from there."""


ERFC_NEAR = (
    (2.46196981473530512524e-10, 5.64189564831068821977e-1, 7.46321056442269912687,
     4.86371970985681366614e1, 1.96520832956077098242e2, 5.26445194995477358631e2,
     9.34528527171957607540e2, 1.02755188689515710272e3, 5.57535335369399327526e2),
    (1.0, 1.32281951154744992508e1, 8.67072140885989742329e1, 3.54937778887819891062e2,
     9.75708501743205489753e2, 1.82390916687909736289e3, 2.24633760818710981792e3,
     1.65666309194161350182e3, 5.57535340817727675546e2),
)  # fmt: skip


ERFC_FAR = (
    (5.64189583547755073984e-1, 1.27536670759978104416, 5.01905042251180477414,
     6.16021097993053585195, 7.40974269950448939160, 2.97886665372100240670),
    (1.0, 2.26052863220117276590, 9.39603524938001434673, 1.20489539808096656605e1,
     1.70814450747565897222e1, 9.60896809063285878198, 3.36907645100081516050),
)  # fmt: skip
"""Numerators and denominators of exp(x²) erfc(x) in double precision, below 8 and from there."""


@declare
class Erfc(Formula):
    """1 - erf(x), without cancellation where that is small."""

    mnemonic = "erfc"
    derivatives = ("-t * (1.1283791670955126 * exp(-x * x))",)

    def formula(self, *xs: Node) -> Node:
        (x,) = xs
        far = self._far(x)
        far = build.select(build.compare(x, "lt", 0.0), build.sub(2.0, far), far)
        return build.select(
            build.compare(size(x), "lt", 1.0), build.sub(1.0, build.apply1("erf", x)), far
        )

    def _far(self, x: Node) -> Node:
        """For |x| from 1."""
        a = size(x)
        squared = build.mul(x, x)
        scale = build.exp(build.apply1("neg", squared))
        if single(x):
            inverse = build.div(1.0, a)
            near, away = (polynomial(build.mul(inverse, inverse), c) for c in ERFC_SINGLE)
            tail = build.mul(
                build.mul(scale, inverse), build.select(build.compare(a, "lt", 2.0), near, away)
            )
        else:
            near, away = (
                build.div(polynomial(a, top), polynomial(a, below))
                for top, below in (ERFC_NEAR, ERFC_FAR)
            )
            tail = build.mul(scale, build.select(build.compare(a, "lt", 8.0), near, away))
        return build.select(build.compare(scale, "eq", 0.0), 0.0, tail)


@declare
class GeluSlope(Formula):
    """The derivative of `gelu`: the normal distribution function at x, plus x times its density.

    The distribution is gelu(x) / x away from 0, so that a kernel that has the value too computes
    its exponential once; near 0 it is a polynomial, and nothing is lost by dividing. 0 at -inf and
    1 at inf.
    """

    mnemonic = "gelu_slope"
    derivatives = (
        "t * where(x * x >= 1600, 0, (2 - x * x) * (0.3989422804014327 * exp(-0.5 * x * x)))",
    )

    def formula(self, *xs: Node) -> Node:
        (x,) = xs
        coefficients = normal.NEAR[x.type.dtype][::-1]
        near = build.add(build.mul(x, polynomial(build.mul(x, x), coefficients)), 0.5)
        is_near = build.compare(size(x), "lt", normal.SMALL)
        far = build.div(build.apply1("gelu_exact", x), build.select(is_near, 1.0, x))
        far = build.select(build.compare(x, "ge", END), 1.0, far)
        inside = build.maximum(build.minimum(x, END), -END)
        density = build.exp(build.mul(build.mul(inside, inside), -0.5))
        rest = build.mul(build.mul(inside, math.sqrt(0.5 / math.pi)), density)
        return build.add(build.select(is_near, near, far), rest)


END = 40.0
"""From here on the density of the normal distribution is 0, and the distribution 1."""

ERF_INV_SINGLE = (
    (2.81022636e-08, 3.43273939e-07, -3.5233877e-06, -4.39150654e-06, 0.00021858087,
     -0.00125372503, -0.00417768164, 0.246640727, 1.50140941),
    (-0.000200214257, 0.000100950558, 0.00134934322, -0.00367342844, 0.00573950773,
     -0.0076224613, 0.00943887047, 1.00167406, 2.83297682),
)  # fmt: skip


ERF_INV_DOUBLE = (
    (-3.6444120640178196996e-21, -1.685059138182016589e-19, 1.2858480715256400167e-18,
     1.115787767802518096e-17, -1.333171662854620906e-16, 2.0972767875968561637e-17,
     6.6376381343583238325e-15, -4.0545662729752068639e-14, -8.1519341976054721522e-14,
     2.6335093153082322977e-12, -1.2975133253453532498e-11, -5.4154120542946279317e-11,
     1.051212273321532285e-09, -4.1126339803469836976e-09, -2.9070369957882005086e-08,
     4.2347877827932403518e-07, -1.3654692000834678645e-06, -1.3882523362786468719e-05,
     0.0001867342080340571352, -0.00074070253416626697512, -0.0060336708714301490533,
     0.24015818242558961693, 1.6536545626831027356),
    (2.2137376921775787049e-09, 9.0756561938885390979e-08, -2.7517406297064545428e-07,
     1.8239629214389227755e-08, 1.5027403968909827627e-06, -4.013867526981545969e-06,
     2.9234449089955446044e-06, 1.2475304481671778723e-05, -4.7318229009055733981e-05,
     6.8284851459573175448e-05, 2.4031110387097893999e-05, -0.0003550375203628474796,
     0.00095328937973738049703, -0.0016882755560235047313, 0.0024914420961078508066,
     -0.0037512085075692412107, 0.005370914553590063617, 1.0052589676941592334,
     3.0838856104922207635),
    (-2.7109920616438573243e-11, -2.5556418169965252055e-10, 1.5076572693500548083e-09,
     -3.7894654401267369937e-09, 7.6157012080783393804e-09, -1.4960026627149240478e-08,
     2.9147953450901080826e-08, -6.7711997758452339498e-08, 2.2900482228026654717e-07,
     -9.9298272942317002539e-07, 4.5260625972231537039e-06, -1.9681778105531670567e-05,
     7.5995277030017761139e-05, -0.00021503011930044477347, -0.00013871931833623122026,
     1.0103004648645343977, 4.8499064014085844221),
)  # fmt: skip


@declare
class ErfInv(Formula):
    """The number whose error function is x: infinite at -1 and 1, NaN beyond."""

    mnemonic = "erf_inv"
    derivatives = ("t * (0.886226925452758 * exp(result * result))",)
    draws = ("unit",)

    def formula(self, *xs: Node) -> Node:
        (x,) = xs
        w = build.apply1("neg", build.apply1("log1p", build.apply1("neg", build.mul(x, x))))
        root = build.sqrt(w)
        if single(x):
            near, away = ERF_INV_SINGLE
            ratio = build.select(
                build.compare(w, "lt", 5.0),
                polynomial(build.sub(w, 2.5), near),
                polynomial(build.sub(root, 3.0), away),
            )
        else:
            centre, middle, tail = ERF_INV_DOUBLE
            far = build.select(
                build.compare(w, "lt", 16.0),
                polynomial(build.sub(root, 3.25), middle),
                polynomial(build.sub(root, 5.0), tail),
            )
            ratio = build.select(
                build.compare(w, "lt", 6.25), polynomial(build.sub(w, 3.125), centre), far
            )
        return build.mul(build.select(build.compare(size(x), "eq", 1.0), math.inf, ratio), x)


I1E_SINGLE = (
    (9.38153732e-9, -4.44505908e-8, 2.00329481e-7, -8.568720e-7, 3.47025139e-6, -1.32731639e-5,
     4.78156508e-5, -1.61760821e-4, 5.122860e-4, -1.51357241e-3, 4.15642294e-3, -1.05640848e-2,
     2.47264490e-2, -5.29459812e-2, 1.02643659e-1, -1.76416518e-1, 2.52587186e-1),
    (-3.83538046e-9, -2.63146891e-8, -2.51223611e-7, -3.88256467e-6, -1.10588939e-4,
     -9.76109784e-3, 7.78576254e-1),
)  # fmt: skip


I1E_DOUBLE = (
    (2.77791411276104639959e-18, -2.11142121435816608115e-17, 1.55363195773620046921e-16,
     -1.10559694773538630805e-15, 7.60068429473540693410e-15, -5.04218550472791168711e-14,
     3.22379336594557470981e-13, -1.98397439776494371520e-12, 1.17361862988909016308e-11,
     -6.66348972350202774223e-11, 3.62559028155211703701e-10, -1.88724975172282928790e-9,
     9.38153738649577178388e-9, -4.44505912879632808065e-8, 2.00329475355213526229e-7,
     -8.56872026469545474066e-7, 3.47025130813767847674e-6, -1.32731636560394358279e-5,
     4.78156510755005422638e-5, -1.61760815825896745588e-4, 5.12285956168575772895e-4,
     -1.51357245063125314899e-3, 4.15642294431288815669e-3, -1.05640848946261981558e-2,
     2.47264490306265168283e-2, -5.29459812080949914269e-2, 1.02643658689847095384e-1,
     -1.76416518357834055153e-1, 2.52587186443633654823e-1),
    (7.51729631084210481353e-18, 4.41434832307170791151e-18, -4.65030536848935832153e-17,
     -3.20952592199342395980e-17, 2.96262899764595013876e-16, 3.30820231092092828324e-16,
     -1.88035477551078244854e-15, -3.81440307243700780478e-15, 1.04202769841288027642e-14,
     4.27244001671195135429e-14, -2.10154184277266431302e-14, -4.08355111109219731823e-13,
     -7.19855177624590851209e-13, 2.03562854414708950722e-12, 1.41258074366137813316e-11,
     3.25260358301548823856e-11, -1.89749581235054123450e-11, -5.58974346219658380687e-10,
     -3.83538038596423702205e-9, -2.63146884688951950684e-8, -2.51223623787020892529e-7,
     -3.88256480887769039346e-6, -1.10588938762623716291e-4, -9.76109749136146840777e-3,
     7.78576235018280120474e-1),
)  # fmt: skip


@declare
class BesselI1e(Formula):
    """exp(-|x|) I1(x), the scaled modified Bessel function of order 1."""

    mnemonic = "bessel_i1e"

    def formula(self, *xs: Node) -> Node:
        (x,) = xs
        a = size(x)
        near, far = I1E_SINGLE if single(x) else I1E_DOUBLE
        low = build.compare(a, "le", 8.0)
        # each series stays where it holds: derivatives of the one that is not taken are finite
        b, c = build.select(low, a, 8.0), build.select(low, 8.0, a)
        small = build.mul(chebyshev(build.sub(build.mul(b, 0.5), 2.0), near), x)
        large = build.div(chebyshev(build.sub(build.div(32.0, c), 2.0), far), build.sqrt(c))
        flipped = build.select(build.compare(x, "lt", 0.0), build.apply1("neg", large), large)
        return build.select(low, small, flipped)


@declare
class NextAfter(Formula):
    """The float next to x towards y: y itself when they are equal, NaN when either is."""

    mnemonic = "next_after"
    operands = ("x", "y")
    derivatives = ("where(x == y, 0, t)", "0")

    def expand(self, *inputs: Node) -> Node:
        x, y = inputs
        shape = build.broadcast_shapes([x.shape, y.shape])
        return self.formula(build.broadcast_to(x, shape), build.broadcast_to(y, shape))

    def formula(self, *xs: Node) -> Node:
        """On the patterns, of halves too: numbers of one sign are in the order of their
        patterns.
        """
        x, y = xs
        dtype = x.type.dtype
        whole = DType(f"i{dtype.bits}")
        bits, least = Node.of(convert.Bitcast(whole), x), -(1 << (dtype.bits - 1))
        # from zero
        away = build.apply1("xor", build.compare(x, "lt", 0.0), build.compare(y, "gt", x))
        moved = build.add(
            bits, build.select(away, build.constant(1, whole), build.constant(-1, whole))
        )
        first = build.select(
            build.compare(y, "lt", 0.0), build.constant(least + 1, whole), build.constant(1, whole)
        )
        moved = build.select(build.compare(x, "eq", 0.0), first, moved)
        neighbour = build.select(
            build.compare(x, "eq", y), y, Node.of(convert.Bitcast(dtype), moved)
        )
        wrong = build.apply1("or", build.compare(x, "ne", x), build.compare(y, "ne", y))
        return build.select(wrong, math.nan, neighbour)

    def evaluate(self, *arrays: Array) -> Array:
        return np.asarray(np.nextafter(*arrays))
