"""Policies and placers have their parameters in a column of their own, and no longer in a text with the name."""

from django.db import migrations, models

from scheduler.core.model.errors import UnknownPlugin
from scheduler.core.model.plugin_text import format_plugin, parse_plugin

#: Model, column with the name or text, column with the parameters.
CHOICES = [
    ("tenants", "VirtualCluster", "policy", "policy_parameters"),
    ("tenants", "VirtualCluster", "placer", "placer_parameters"),
    ("scheduler", "ClusterSettings", "spare_policy", "spare_policy_parameters"),
    ("scheduler", "ClusterSettings", "spare_placer", "spare_placer_parameters"),
]
#: The view of the spare GPUs, whose policy was a text here, too.
SPARE = "spare"


def split(text, parameters):
    """What cannot be read stays as it is: it names no plug-in, then as now."""
    try:
        name, stated = parse_plugin(text) if ":" in text else (text, {})
    except UnknownPlugin:
        return text, parameters
    return name, {**stated, **parameters}


def join(name, parameters):
    """Return the text; raise ValueError where it would mean something else."""
    text = format_plugin(name, parameters)
    if len(text) > 255 or split(text, {}) != (name, as_parsed(parameters)):
        raise ValueError(f"{name} with {parameters!r} cannot be written in a line; choose other parameters")
    return text


def as_parsed(value):
    if isinstance(value, dict):
        return {name: as_parsed(each) for name, each in value.items()}
    return tuple(map(as_parsed, value)) if isinstance(value, list) else value


def separate(apps, schema_editor):
    for app, model, column, parameters in CHOICES:
        rows = apps.get_model(app, model).objects.filter(**{f"{column}__contains": ":"})
        for row in rows:
            name, given = split(getattr(row, column), getattr(row, parameters))
            rows.filter(pk=row.pk).update(**{column: name, parameters: given})
    computing = apps.get_model("scheduler", "ViewComputing").objects.filter(view=SPARE)
    for row in computing:
        if row.policy:
            computing.update(policy=list(split(*row.policy)))


def put_together(apps, schema_editor):
    for app, model, column, parameters in CHOICES:
        if (model, column) == ("VirtualCluster", "policy"):
            continue  # Its parameters had their column before.
        rows = apps.get_model(app, model).objects.exclude(**{parameters: {}})
        for row in rows:
            try:
                text = join(getattr(row, column), getattr(row, parameters))
            except ValueError as error:
                where = getattr(row, "name", "the cluster's settings")
                raise ValueError(f"{column} of {where}: {error}") from None
            rows.filter(pk=row.pk).update(**{column: text})
    computing = apps.get_model("scheduler", "ViewComputing").objects.filter(view=SPARE)
    for row in computing:
        if row.policy:
            computing.update(policy=[format_plugin(*row.policy), {}])


class Migration(migrations.Migration):
    dependencies = [("scheduler", "0023_agent_service_since"), ("tenants", "0010_placer_parameters")]

    operations = [
        migrations.AddField(
            model_name="clustersettings",
            name="spare_policy_parameters",
            field=models.JSONField(default=dict),
        ),
        migrations.AddField(
            model_name="clustersettings",
            name="spare_placer_parameters",
            field=models.JSONField(default=dict),
        ),
        migrations.RunPython(separate, put_together),
    ]
