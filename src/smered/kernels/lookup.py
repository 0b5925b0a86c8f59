"""What a record or a random number stands for: distortion rates and levels."""

from smered.kernels.jit import jit_inline

__all__ = ["level_at", "record_odds", "record_rate"]


@jit_inline
def record_odds(record, field, layout, parameters):
    """(1 - beta) / beta for one record's file and a field."""
    if parameters.odds.shape[0] == 1:
        return parameters.odds[0, field]
    return parameters.odds[layout.rate_row[layout.cell_file[layout.cell[record]]], field]


@jit_inline
def record_rate(record, field, layout, parameters):
    """The distortion rate of one record's file and a field."""
    return 1.0 / (1.0 + record_odds(record, field, layout, parameters))


@jit_inline
def level_at(target, field, layout, parameters):
    """The level whose interval of the field's running sum of theta holds `target`."""
    low, high = layout.field_start[field], layout.field_start[field + 1] - 1
    while low < high:
        middle = (low + high) // 2
        if parameters.cumulative[middle] > target:
            high = middle
        else:
            low = middle + 1
    return low
