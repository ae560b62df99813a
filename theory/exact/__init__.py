"""Float64 truth: laws, divergences and exponents of models whose contexts form a finite table, and of samplers that run on them.

layers = unroll(table)
power = power_law(layers, alpha=2.0)
kl_divergence(power.law, temperature_law(layers, alpha=2.0))

Of a sampler it has what a finite run gives: moments of importance weights, every SMC population with its probability, and transition
matrices of Markov kernels.

space = sequence_space(table, proposal_alpha=2.0)
move = suffix_transition(space, 2.0, uniform_cut())
total_variation_curve(move.matrix, proposal_law(space), target_law(space, 2.0), num_steps=50)
"""

from theory.exact.conditional_offspring import (
    conditional_killing_offspring as conditional_killing_offspring,
)
from theory.exact.conditional_offspring import (
    conditional_multinomial_offspring as conditional_multinomial_offspring,
)
from theory.exact.conditional_offspring import (
    conditional_stratified_offspring as conditional_stratified_offspring,
)
from theory.exact.conditional_offspring import (
    conditional_systematic_offspring as conditional_systematic_offspring,
)
from theory.exact.context_graph import context_graph as context_graph
from theory.exact.context_table import ContextTable as ContextTable
from theory.exact.context_table import after_prompt as after_prompt
from theory.exact.context_table import make_context_table as make_context_table
from theory.exact.context_table import with_horizon as with_horizon
from theory.exact.coupled import coupled_transition as coupled_transition
from theory.exact.coupled import laws_apart as laws_apart
from theory.exact.dense_chain import power_marginals as power_marginals
from theory.exact.divergences import Bounds as Bounds
from theory.exact.divergences import chi_square as chi_square
from theory.exact.divergences import kl_divergence as kl_divergence
from theory.exact.divergences import log_ess_fraction as log_ess_fraction
from theory.exact.divergences import log_max_ratio as log_max_ratio
from theory.exact.divergences import renyi_divergence as renyi_divergence
from theory.exact.divergences import total_variation_bounds as total_variation_bounds
from theory.exact.entropies import Mode as Mode
from theory.exact.entropies import mode as mode
from theory.exact.entropies import renyi_entropy as renyi_entropy
from theory.exact.enumeration import Enumeration as Enumeration
from theory.exact.enumeration import enumerate_sequences as enumerate_sequences
from theory.exact.enumeration import sequence_blocks as sequence_blocks
from theory.exact.enumeration import total_variation as total_variation
from theory.exact.functionals import Moments as Moments
from theory.exact.functionals import base_log_prob_moments as base_log_prob_moments
from theory.exact.functionals import expected_length as expected_length
from theory.exact.functionals import length_law as length_law
from theory.exact.functionals import moments as moments
from theory.exact.functionals import token_marginals as token_marginals
from theory.exact.growth import best_proposal_rate as best_proposal_rate
from theory.exact.growth import importance_divergence_rate as importance_divergence_rate
from theory.exact.growth import kl_rate as kl_rate
from theory.exact.growth import power_growth as power_growth
from theory.exact.growth import smc_growth as smc_growth
from theory.exact.importance_moments import DeltaMethod as DeltaMethod
from theory.exact.importance_moments import Evidence as Evidence
from theory.exact.importance_moments import MeanVariance as MeanVariance
from theory.exact.importance_moments import WeightedDraw as WeightedDraw
from theory.exact.importance_moments import delta_method as delta_method
from theory.exact.importance_moments import evidence_moments as evidence_moments
from theory.exact.importance_moments import self_normalised_moments as self_normalised_moments
from theory.exact.importance_moments import target_mean as target_mean
from theory.exact.importance_moments import unnormalised_moments as unnormalised_moments
from theory.exact.importance_moments import weighted_draw as weighted_draw
from theory.exact.laws import Law as Law
from theory.exact.laws import PowerLaw as PowerLaw
from theory.exact.laws import base_law as base_law
from theory.exact.laws import power_law as power_law
from theory.exact.laws import temperature_law as temperature_law
from theory.exact.layers import Layers as Layers
from theory.exact.layers import num_sequences as num_sequences
from theory.exact.layers import unroll as unroll
from theory.exact.length_scaling import best_proposal as best_proposal
from theory.exact.length_scaling import crossover_length as crossover_length
from theory.exact.length_scaling import variances_at_length as variances_at_length
from theory.exact.limit_chain import limit_chain as limit_chain
from theory.exact.markov_chain import SpectralGap as SpectralGap
from theory.exact.markov_chain import chi_square_bounds as chi_square_bounds
from theory.exact.markov_chain import detailed_balance_error as detailed_balance_error
from theory.exact.markov_chain import doeblin_bounds as doeblin_bounds
from theory.exact.markov_chain import doeblin_constant as doeblin_constant
from theory.exact.markov_chain import laws_after as laws_after
from theory.exact.markov_chain import move_rate as move_rate
from theory.exact.markov_chain import spectral_gap as spectral_gap
from theory.exact.markov_chain import stationarity_error as stationarity_error
from theory.exact.markov_chain import stationary_law as stationary_law
from theory.exact.markov_chain import stay_rate as stay_rate
from theory.exact.markov_chain import total_variation_curve as total_variation_curve
from theory.exact.offspring import Offspring as Offspring
from theory.exact.offspring import OffspringLaw as OffspringLaw
from theory.exact.offspring import killing_offspring as killing_offspring
from theory.exact.offspring import multinomial_offspring as multinomial_offspring
from theory.exact.offspring import residual_offspring as residual_offspring
from theory.exact.offspring import ssp_offspring as ssp_offspring
from theory.exact.offspring import stratified_offspring as stratified_offspring
from theory.exact.offspring import systematic_offspring as systematic_offspring
from theory.exact.offspring import when_ess_below as when_ess_below
from theory.exact.particle_gibbs import (
    particle_gibbs_transition as particle_gibbs_transition,
)
from theory.exact.sampling import Draws as Draws
from theory.exact.sampling import draw_sequences as draw_sequences
from theory.exact.sequence_space import SequenceSpace as SequenceSpace
from theory.exact.sequence_space import proposal_law as proposal_law
from theory.exact.sequence_space import sequence_space as sequence_space
from theory.exact.sequence_space import target_law as target_law
from theory.exact.small_alpha import small_alpha_law as small_alpha_law
from theory.exact.smc_bias import smc_bias_terms as smc_bias_terms
from theory.exact.smc_finite_variance import adapted_relative_variance as adapted_relative_variance
from theory.exact.smc_finite_variance import (
    every_step_relative_variance as every_step_relative_variance,
)
from theory.exact.smc_finite_variance import twisted_relative_variance as twisted_relative_variance
from theory.exact.smc_log_evidence import (
    expected_conditional_log_evidence as expected_conditional_log_evidence,
)
from theory.exact.smc_log_evidence import expected_log_evidence as expected_log_evidence
from theory.exact.smc_population import FiniteRun as FiniteRun
from theory.exact.smc_population import adapted_filter as adapted_filter
from theory.exact.smc_population import plain_filter as plain_filter
from theory.exact.smc_population import weighted_filter as weighted_filter
from theory.exact.smc_variance import adapted_variance_terms as adapted_variance_terms
from theory.exact.smc_variance import every_step_variance_terms as every_step_variance_terms
from theory.exact.summary import PowerSummary as PowerSummary
from theory.exact.summary import summarise as summarise
from theory.exact.transition import Transition as Transition
from theory.exact.transition import blockwise_law as blockwise_law
from theory.exact.transition import multiple_try_transition as multiple_try_transition
from theory.exact.transition import suffix_transition as suffix_transition
from theory.exact.transition import tempering_matrix as tempering_matrix
