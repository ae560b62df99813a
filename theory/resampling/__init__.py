"""Resampling: one scheme a file, adaptive and conditional versions, and survivors in their own slots.

Every scheme is a `theory.protocols.Resampler`: the expected total weight of each particle's offspring is its own weight, the
evidence is carried on in the log weights, a weight of zero has no offspring, and where all are dead nothing is
resampled (ancestors 0..N-1, log weights -inf). Each has an inner function of explicit uniforms, `*_from_uniforms`, of which
expectations are exact finite sums.
"""

from theory.resampling.adaptive import ess_adaptive, needs_resampling
from theory.resampling.ancestors import in_place, num_offspring
from theory.resampling.chopthin import HALF_ESS_RATIO, chopthin, chopthin_from_uniforms
from theory.resampling.conditional import (
    conditional_killing,
    conditional_killing_from_uniforms,
    conditional_multinomial,
    conditional_multinomial_from_uniforms,
    conditional_stratified,
    conditional_stratified_from_uniforms,
    conditional_systematic,
    conditional_systematic_from_uniforms,
)
from theory.resampling.killing import killing, killing_from_uniforms
from theory.resampling.multinomial import multinomial, multinomial_from_uniforms
from theory.resampling.residual import residual, residual_from_uniforms
from theory.resampling.ssp import ssp, ssp_from_uniforms
from theory.resampling.stratified import stratified, stratified_from_uniforms
from theory.resampling.systematic import systematic, systematic_from_uniforms

__all__ = [
    "HALF_ESS_RATIO",
    "chopthin",
    "chopthin_from_uniforms",
    "conditional_killing",
    "conditional_killing_from_uniforms",
    "conditional_multinomial",
    "conditional_multinomial_from_uniforms",
    "conditional_stratified",
    "conditional_stratified_from_uniforms",
    "conditional_systematic",
    "conditional_systematic_from_uniforms",
    "ess_adaptive",
    "in_place",
    "killing",
    "killing_from_uniforms",
    "multinomial",
    "multinomial_from_uniforms",
    "needs_resampling",
    "num_offspring",
    "residual",
    "residual_from_uniforms",
    "ssp",
    "ssp_from_uniforms",
    "stratified",
    "stratified_from_uniforms",
    "systematic",
    "systematic_from_uniforms",
]
