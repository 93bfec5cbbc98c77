"""Streams of batches that the jobs of a search share: to which one a pool of input workers belongs."""

from django.db import migrations, models
from django.db.models import Q


class Migration(migrations.Migration):
    dependencies = [("scheduler", "0058_groups_of_partners")]

    operations = [
        migrations.AddField(
            model_name="inputpool",
            name="stream",
            field=models.CharField(blank=True, default="", max_length=64),
        ),
        migrations.AddField(
            model_name="inputpool",
            name="skipped",
            field=models.PositiveBigIntegerField(null=True),
        ),
        migrations.AddIndex(
            model_name="inputpool",
            index=models.Index(condition=~Q(stream=""), fields=["stream"], name="input_pool_stream"),
        ),
    ]
