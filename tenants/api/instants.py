"""Filters by time, within what the database can compare."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from django.core.exceptions import ValidationError
from django.core.validators import MaxValueValidator, MinValueValidator
from django_filters import rest_framework as filters
from django_filters.fields import IsoDateTimeField


class _InstantField(IsoDateTimeField):
    default_validators = [
        MinValueValidator(datetime(1970, 1, 2, tzinfo=UTC)),
        MaxValueValidator(datetime(2999, 12, 31, tzinfo=UTC)),
    ]

    def to_python(self, value: Any) -> datetime | None:
        instant = super().to_python(value)
        try:
            # The database takes no offset of 16 hours or more, which ISO 8601 allows.
            return instant and instant.astimezone(UTC)
        except OverflowError:
            raise ValidationError(self.error_messages["invalid"], code="invalid") from None


class InstantFilter(filters.IsoDateTimeFilter):
    """Takes instants of the years 1970 to 2999, whatever their offset from UTC."""

    field_class = _InstantField
