"""The customary name of `rolloutlab analyze`."""

import sys

from experiments.analyze import main

sys.exit(main())
