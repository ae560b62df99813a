"""Exact operating characteristics of allocation rules, and the optimum of each information class.

found = characteristics(threshold_rules(beta(1.0, 1.0), 8, thresholds), population, 8)
cost_per_effective_group(found), false_abandonment(found), missed_share(found)

Any sequential rule runs on `lattice`, a policy's own table too (`action_table`); `claims` (SARA), `pilot_commit` and `hora` have what is special to one rule, `objective` what each
one optimises, `prior_free` a guarantee without a prior. `fresh_stream`, `finite_pool` and `relaxation` have the optimum, `remembered` and `remembered_sizes` that of groups of unequal size.
"""

from theory.exact.allocation.action_table import rule_of_table as rule_of_table
from theory.exact.allocation.claims import run_length_rules as run_length_rules
from theory.exact.allocation.claims import threshold_rules as threshold_rules
from theory.exact.allocation.lattice import Characteristics as Characteristics
from theory.exact.allocation.lattice import SequentialRule as SequentialRule
from theory.exact.allocation.lattice import characteristics as characteristics
from theory.exact.allocation.lattice import cost_per_effective_group as cost_per_effective_group
from theory.exact.allocation.lattice import false_abandonment as false_abandonment
from theory.exact.allocation.lattice import full_groups as full_groups
from theory.exact.allocation.lattice import missed_share as missed_share
