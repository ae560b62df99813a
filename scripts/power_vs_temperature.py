"""The customary name of `rolloutlab power-vs-temperature`."""

import sys

from experiments.power_vs_temperature import main

sys.exit(main())
