"""Many devices and hosts: rows and weights over a mesh, by JAX's own SPMD.

mesh = device_mesh(num_head_shards=2)              # ("rows", "heads") over all devices
sample = shard_rows(mesh, function)                # function(key, model, *rows): the code of one device
model = shard_parameters(mesh, model)              # where weights are larger than a device
result = gather_rows(sample(key, model, *place_rows(mesh, rows)))
"""

from models.transformer.sharding.hosts import gather_rows as gather_rows
from models.transformer.sharding.hosts import initialise_hosts as initialise_hosts
from models.transformer.sharding.hosts import writes_files as writes_files
from models.transformer.sharding.parameters import parameter_specs as parameter_specs
from models.transformer.sharding.parameters import shard_parameters as shard_parameters
from models.transformer.sharding.rows import device_mesh as device_mesh
from models.transformer.sharding.rows import place_rows as place_rows
from models.transformer.sharding.rows import shard_rows as shard_rows
