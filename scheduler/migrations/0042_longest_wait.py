from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('scheduler', '0041_parts_end_with_attempts'),
    ]

    operations = [
        migrations.AddField(
            model_name='restraint',
            name='longest_wait_seconds',
            field=models.FloatField(default=21600.0),
        ),
        migrations.AddField(
            model_name='job',
            name='waits_since',
            field=models.DateTimeField(null=True),
        ),
    ]
