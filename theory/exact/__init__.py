"""Float64 truth: laws, divergences and exponents of models whose contexts form a finite table.

layers = unroll(table)
power = power_law(layers, alpha=2.0)
kl_divergence(power.law, temperature_law(layers, alpha=2.0))
"""

from theory.exact.context_graph import context_graph as context_graph
from theory.exact.context_table import ContextTable as ContextTable
from theory.exact.context_table import after_prompt as after_prompt
from theory.exact.context_table import make_context_table as make_context_table
from theory.exact.context_table import with_horizon as with_horizon
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
from theory.exact.sampling import Draws as Draws
from theory.exact.sampling import draw_sequences as draw_sequences
from theory.exact.small_alpha import small_alpha_law as small_alpha_law
from theory.exact.summary import PowerSummary as PowerSummary
from theory.exact.summary import summarise as summarise
