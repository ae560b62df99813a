"""One of several processes that draw rows together; process 0 writes them.

python -m tests.models.transformer.one_process PORT PROCESSES PROCESS FILE
"""

import sys

import jax
import numpy as np

jax.config.update("jax_num_cpu_devices", 2)

from models.transformer.sharding import (
    device_mesh,
    gather_rows,
    initialise_hosts,
    place_rows,
    shard_parameters,
    shard_rows,
    writes_files,
)

port, num_processes, process, file = sys.argv[1:]
initialise_hosts(f"127.0.0.1:{port}", int(num_processes), int(process))

from tests.models.transformer.sharded import KEY, ROWS, ancestral, divisible

assert jax.device_count() == 2 * int(num_processes)
mesh = device_mesh()
drawn = shard_rows(mesh, ancestral)(
    KEY, shard_parameters(mesh, divisible()), place_rows(mesh, ROWS)
)
whole = gather_rows(drawn.trajectories)
if writes_files():
    np.savez(file, **whole._asdict())
jax.distributed.shutdown()
