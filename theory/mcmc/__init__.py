"""Markov kernels over whole sequences, natively batched over independent chains.

    kernel = suffix_regeneration(alpha=2.0, proposal_alpha=2.0, cut_law=uniform_cut())
    chains = kernel.init(key, model, prompts)
    chains, info = kernel.step(key, model, chains)

One key serves a whole run: the noise is addressed by role, chain and iteration. A finite run is an approximate draw from the target;
estimates over a run count every repeat of a kept sequence.
"""

from theory.mcmc.asynchronous import asynchronous_suffix as asynchronous_suffix
from theory.mcmc.blockwise import Stages as Stages
from theory.mcmc.blockwise import blockwise as blockwise
from theory.mcmc.blockwise import num_stages as num_stages
from theory.mcmc.chains import Chains as Chains
from theory.mcmc.chains import Design as Design
from theory.mcmc.chains import Prompts as Prompts
from theory.mcmc.chains import check_starts as check_starts
from theory.mcmc.chains import make_design as make_design
from theory.mcmc.chains import place_chains as place_chains
from theory.mcmc.chains import start_chains_at as start_chains_at
from theory.mcmc.coupled import CoupledChains as CoupledChains
from theory.mcmc.coupled import CoupledInfo as CoupledInfo
from theory.mcmc.coupled import coupled_suffix_regeneration as coupled_suffix_regeneration
from theory.mcmc.cuts import CutLaw as CutLaw
from theory.mcmc.cuts import block_cut as block_cut
from theory.mcmc.cuts import entropy_cut as entropy_cut
from theory.mcmc.cuts import uniform_cut as uniform_cut
from theory.mcmc.independence import independence as independence
from theory.mcmc.meeting_times import total_variation_estimates as total_variation_estimates
from theory.mcmc.meeting_times import unbiased_estimates as unbiased_estimates
from theory.mcmc.multiple_try import multiple_try as multiple_try
from theory.mcmc.particle_gibbs import GibbsInfo as GibbsInfo
from theory.mcmc.particle_gibbs import References as References
from theory.mcmc.particle_gibbs import particle_gibbs as particle_gibbs
from theory.mcmc.suffix import MoveInfo as MoveInfo
from theory.mcmc.suffix import suffix_regeneration as suffix_regeneration
from theory.mcmc.tempering import SweepInfo as SweepInfo
from theory.mcmc.tempering import parallel_tempering as parallel_tempering
from theory.mcmc.tilted import reward_tilted as reward_tilted
