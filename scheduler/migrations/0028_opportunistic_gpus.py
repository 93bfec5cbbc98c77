from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('scheduler', '0027_serving_pools'),
    ]

    operations = [
        migrations.AddField(
            model_name='allocation',
            name='opportunistic_gpus',
            field=models.PositiveIntegerField(db_default=0, default=0),
        ),
    ]
