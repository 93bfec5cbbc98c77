"""Objects that several domains show, as the API's schema describes them."""

from rest_framework import serializers

from tenants.api.strict import StrictSerializer

#: Characters of a plug-in's name, or of the text with its parameters.
PLUGIN_MOST = 255


class Currency(serializers.CharField):
    """The currency of a sum of money, with the same description everywhere."""

    def __init__(self) -> None:
        super().__init__(
            allow_null=True,
            help_text="Currency of these amounts as an ISO 4217 code; null: cost units without a currency.",
        )


class ChosenPlugin(StrictSerializer):
    """A policy or placer with its parameters."""

    #: Answers have both fields.
    is_stored = True

    name = serializers.CharField(max_length=PLUGIN_MOST)
    parameters = serializers.DictField(
        required=False,
        default=dict,
        help_text="Parameters that differ from their defaults, by name; `GET /policies` lists them.",
    )
