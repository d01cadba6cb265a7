"""Decides whether one of the target's libraries computes a group."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

from xlac.codegen.core.lowered_group import LoweredGroup
from xlac.codegen.library import attention, convolution, product
from xlac.codegen.library.refused import LibraryRefused
from xlac.fusion.group import Group, Kind
from xlac_sdk.target import Target


def without(target: Target) -> Target:
    """The target without its libraries."""
    return replace(target, products=frozenset(), convolutions=frozenset(), attentions=frozenset())


def called(group: Group, target: Target) -> LoweredGroup | str:
    """One call that computes the whole group, or the reason why a kernel is generated instead.

    Reasons are: the library does not support what the group computes, would round differently than
    the model's precision allows, or the group is too small for a launch of its own.
    """
    reasons = []
    for of_library in _choices(group, target):
        try:
            return of_library(group, target)
        except LibraryRefused as refused:
            reasons.append(str(refused))
    return f"not by a library: {'; '.join(reasons)}" if reasons else ""


def _choices(group: Group, target: Target) -> Iterator[Callable[[Group, Target], LoweredGroup]]:
    """The library functions to try, the better first."""
    if target.products and (group.kind is Kind.DOT or product.one_tap(group.anchor)):
        yield product.called
    if target.convolutions and group.kind is Kind.CONV:
        yield convolution.called
    if target.attentions and group.kind is Kind.ATTENTION:
        yield attention.called
