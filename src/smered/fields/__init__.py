"""What a column means: each field type turns columns into codes and hyperparameters."""

from smered.fields.categorical import Categorical
from smered.fields.field import CodedField, Field
from smered.fields.joint import Joint
from smered.fields.near import Date, Number, Text

__all__ = ["Categorical", "CodedField", "Date", "Field", "Joint", "Number", "Text"]
