from django.core.validators import MinValueValidator
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("tenants", "0011_sharing")]

    operations = [
        migrations.AddField(
            model_name="tenant",
            name="quota_cpus",
            field=models.FloatField(null=True, validators=[MinValueValidator(0)]),
        ),
        migrations.AddField(
            model_name="tenant",
            name="quota_memory_bytes",
            field=models.PositiveBigIntegerField(null=True),
        ),
    ]
