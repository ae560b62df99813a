"""Sizes that do not fit each other are refused by name, with the mend."""

from dataclasses import replace
from typing import Any

import pytest

from models.transformer.config import check_config
from tests.models.transformer.families import BASE, CONFIGS
from theory.errors import InvalidInput


@pytest.mark.parametrize(
    ("change", "says"),
    [
        *(
            ({name: 0}, f"{name} 0: must be at least 1")
            for name in (
                *("vocab_size", "width", "num_layers", "num_heads", "num_key_value_heads"),
                *("head_dim", "hidden", "context"),
            )
        ),
        ({"num_key_value_heads": 3}, "num_key_value_heads 3: must divide num_heads 4"),
        ({"head_dim": 5}, "head_dim 5: must be even with rotary positions"),
        ({"windows": (3,)}, "windows: 1 of them for 2 layers, give one a layer"),
        ({"windows": (3, 0)}, "must be at least 1 each, or None"),
        ({"start_token": 11}, "start_token (11,): must be in 0..10"),
        ({"start_token": -1}, "start_token (-1,): must be in 0..10"),
        ({"eos": (2, 11)}, "eos (2, 11): must be in 0..10"),
    ],
)
def test_what_does_not_fit_is_named(change: dict[str, Any], says: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        check_config(replace(BASE, **change))
    assert says in str(refused.value) and "\n" not in str(refused.value)


def test_what_fits_passes() -> None:
    for config in CONFIGS.values():
        assert check_config(config) is config
    odd = replace(BASE, head_dim=5, rotary=None)
    assert check_config(odd) is odd


def test_windows_and_groups_are_those_of_the_layer() -> None:
    config = CONFIGS["mistral"]
    assert (config.group, config.window(0), config.window(1)) == (2, 3, None)
    assert BASE.group == 1 and BASE.window(1) is None
