"""Sequential Monte Carlo for p(y)^alpha: weighted populations of rows and an unbiased estimate of Z.

population = start_populations(model, prompts, prompt_lengths, ids=jnp.arange(8), num_particles=64)
resampler = ess_adaptive(systematic, 0.5)
population, info = smc(
    key, model, temperature_proposal(2.0), 2.0, population, resampler, every(model.horizon)
)
log_evidence(population)
"""

from theory.smc.adapted import adapted_smc as adapted_smc
from theory.smc.bounds import DivergenceBounds as DivergenceBounds
from theory.smc.bounds import EvidenceBounds as EvidenceBounds
from theory.smc.bounds import ExactDraw as ExactDraw
from theory.smc.bounds import conditional_evidence as conditional_evidence
from theory.smc.bounds import exact_draw_from_layers as exact_draw_from_layers
from theory.smc.bounds import exact_draw_from_rejection as exact_draw_from_rejection
from theory.smc.bounds import log_evidence_interval as log_evidence_interval
from theory.smc.bounds import proposal_divergence_bounds as proposal_divergence_bounds
from theory.smc.bounds import smc_divergence_bounds as smc_divergence_bounds
from theory.smc.bridging import bridged_smc as bridged_smc
from theory.smc.bridging import linear_ramp as linear_ramp
from theory.smc.child_twist import ChildTwist as ChildTwist
from theory.smc.child_twist import Prefixes as Prefixes
from theory.smc.child_twist import asking_each_child as asking_each_child
from theory.smc.child_twist import child_twisted_smc as child_twisted_smc
from theory.smc.child_twist import no_twist as no_twist
from theory.smc.conditional import conditional_smc as conditional_smc
from theory.smc.exact_twist import ExactTwist as ExactTwist
from theory.smc.exact_twist import exact_twist as exact_twist
from theory.smc.feynman_kac import FilterInfo as FilterInfo
from theory.smc.feynman_kac import ParticleSystem as ParticleSystem
from theory.smc.feynman_kac import feynman_kac as feynman_kac
from theory.smc.hidden_markov import HiddenMarkovModel as HiddenMarkovModel
from theory.smc.hidden_markov import bootstrap_filter as bootstrap_filter
from theory.smc.hidden_markov import forward_log_evidence as forward_log_evidence
from theory.smc.lookahead import LookaheadInfo as LookaheadInfo
from theory.smc.lookahead import lookahead_power_sampling as lookahead_power_sampling
from theory.smc.lookahead import lookahead_smc as lookahead_smc
from theory.smc.population import Population as Population
from theory.smc.population import draw_one as draw_one
from theory.smc.population import log_evidence as log_evidence
from theory.smc.population import start_populations as start_populations
from theory.smc.proposals import defensive_proposal as defensive_proposal
from theory.smc.proposals import temperature_proposal as temperature_proposal
from theory.smc.schedule import every as every
from theory.smc.smc import smc as smc
from theory.smc.step import StepInfo as StepInfo
from theory.smc.twist_losses import TwistRows as TwistRows
from theory.smc.twist_losses import children_along as children_along
from theory.smc.twist_losses import contrastive_loss as contrastive_loss
from theory.smc.twist_losses import contrastive_loss_of_draws as contrastive_loss_of_draws
from theory.smc.twist_losses import soft_bellman_loss as soft_bellman_loss
from theory.smc.twist_losses import twist_rows as twist_rows
from theory.smc.twisted import LogTwist as LogTwist
from theory.smc.twisted import twisted_smc as twisted_smc
from theory.smc.twisted import twisted_targets_smc as twisted_targets_smc
