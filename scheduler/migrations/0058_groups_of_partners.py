"""Up to three partners of a job class whose speed was measured, in one column."""

from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('scheduler', '0057_usage_reports'),
    ]

    operations = [
        migrations.AlterField(
            model_name='speedcorrection',
            name='partner',
            field=models.CharField(blank=True, max_length=206),
        ),
        migrations.AlterField(
            model_name='speedmeasurement',
            name='partner',
            field=models.CharField(blank=True, max_length=206),
        ),
    ]
