"""Token rules: how the law that tokens are drawn from is made of a model's law.

    rules = default_rules(temperature(0.7), top_p(0.9))
    draw = sample_tokens(keys, rules, log_probs, no_counts(log_probs))

`draw.log_q` is log q of the whole pipeline, `draw.log_p` the model's own log probability at temperature 1.
"""

from theory.decoding.counts import add_tokens as add_tokens
from theory.decoding.counts import no_counts as no_counts
from theory.decoding.counts import token_counts as token_counts
from theory.decoding.epsilon import epsilon as epsilon
from theory.decoding.eta import eta as eta
from theory.decoding.min_p import min_p as min_p
from theory.decoding.orders import DEFAULT_ORDER as DEFAULT_ORDER
from theory.decoding.orders import LIBRARIES as LIBRARIES
from theory.decoding.penalties import frequency as frequency
from theory.decoding.penalties import presence as presence
from theory.decoding.penalties import repetition as repetition
from theory.decoding.pipeline import TokenLaw as TokenLaw
from theory.decoding.pipeline import arrange as arrange
from theory.decoding.pipeline import default_rules as default_rules
from theory.decoding.pipeline import is_truncating as is_truncating
from theory.decoding.pipeline import joint as joint
from theory.decoding.pipeline import jointly as jointly
from theory.decoding.pipeline import reads_counts as reads_counts
from theory.decoding.pipeline import token_law as token_law
from theory.decoding.rule import Filter as Filter
from theory.decoding.rule import TokenRule as TokenRule
from theory.decoding.sample import TokenDraw as TokenDraw
from theory.decoding.sample import draw_tokens as draw_tokens
from theory.decoding.sample import log_normaliser as log_normaliser
from theory.decoding.sample import sample_tokens as sample_tokens
from theory.decoding.stochastic_beam import DistinctDraws as DistinctDraws
from theory.decoding.stochastic_beam import stochastic_beam as stochastic_beam
from theory.decoding.temperature import temperature as temperature
from theory.decoding.token_masks import allowed as allowed
from theory.decoding.token_masks import blocked as blocked
from theory.decoding.token_masks import forced as forced
from theory.decoding.token_masks import min_tokens as min_tokens
from theory.decoding.top_k import top_k as top_k
from theory.decoding.top_n_sigma import top_n_sigma as top_n_sigma
from theory.decoding.top_p import top_p as top_p
from theory.decoding.typical import typical as typical
from theory.decoding.without_replacement import estimate_expectation as estimate_expectation
from theory.decoding.without_replacement import log_importance_weights as log_importance_weights
from theory.decoding.without_replacement import log_inclusion_probs as log_inclusion_probs
