"""The customary name of `rolloutlab analyze`, which this version does not have."""

import sys

print("analyze_rollouts: reading rollout logs is not part of this version", file=sys.stderr)
sys.exit(2)
