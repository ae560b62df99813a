"""One module for each format of rollout logs; `registry` lists them."""
