"""What the storage of a node delivers, and how much its cache holds."""

from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('scheduler', '0055_reservations'),
    ]

    operations = [
        migrations.AddField(
            model_name='node',
            name='storage_bandwidth',
            field=models.FloatField(db_default=0, default=0),
        ),
        migrations.AddField(
            model_name='node',
            name='cache_bytes',
            field=models.PositiveBigIntegerField(db_default=0, default=0),
        ),
    ]
